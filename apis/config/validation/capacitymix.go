// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"berth.dev/berth/apis/config"
)

const (
	maxNodeRules           = 64
	maxNodeRuleValues      = 64
	maxNodeRuleNameLength  = 63
	maxSpreadKeys          = 4
	maxSpotalisNamespaces  = 1000
	maxOnePodKinds         = 64
	maxKindLength          = 63
	maxReplicas            = 1000000
	maxSpotWaitSeconds     = 86400
	minNodeSampleSize      = 16
	maxNodeSampleSize      = 1000
	maxSyncTimeoutSeconds  = 600
	annotationPrefixOurs   = "berth.dev"
	annotationPrefixOthers = "spotalis.io"
)

// ValidateCapacityMixArgs returns every error in the arguments of the CapacityMix plugin after defaulting. With a nil
// path, paths start at the arguments.
func ValidateCapacityMixArgs(path *field.Path, args *config.CapacityMixArgs) field.ErrorList {
	errs := validateNodeRules(path.Child("nodeRules"), args.NodeRules)
	errs = append(errs, validateBuiltinNodeRules(path.Child("builtinNodeRules"), args)...)
	if args.DefaultMix != nil {
		errs = append(errs, validateMixSpec(path.Child("defaultMix"), args.DefaultMix)...)
	}
	errs = append(errs, validateAnnotationPrefixes(path.Child("annotationPrefixes"), args.AnnotationPrefixes)...)
	errs = append(errs, validateSpotalisNamespaces(path.Child("spotalisNamespaces"), args)...)
	errs = append(errs, validateOnePodKinds(path.Child("onePodKinds"), args.OnePodKinds)...)
	errs = append(errs, validateSpreadKeys(path.Child("spreadSpotOver"), args.SpreadSpotOver)...)
	errs = append(errs, validateNamespace(path.Child("interruptionsNamespace"), args.InterruptionsNamespace)...)
	if args.NodeSampleSize != 0 && (args.NodeSampleSize < minNodeSampleSize || args.NodeSampleSize > maxNodeSampleSize) {
		errs = append(errs, field.Invalid(path.Child("nodeSampleSize"), args.NodeSampleSize,
			fmt.Sprintf("must be 0 (all nodes) or between %d and %d", minNodeSampleSize, maxNodeSampleSize)))
	}
	errs = append(errs, validateEnum(path.Child("rankSampleBy"), args.RankSampleBy,
		config.RankSampleByLeastAllocated, config.RankSampleByMostAllocated, config.RankSampleByOff)...)
	errs = append(errs, validateRange(path.Child("syncTimeoutSeconds"), args.SyncTimeoutSeconds, 1, maxSyncTimeoutSeconds)...)
	if args.CapacityTypeLabel != nil {
		errs = append(errs, validateCapacityTypeLabel(path.Child("capacityTypeLabel"), args.CapacityTypeLabel)...)
	}

	return errs
}

func validateOnePodKinds(path *field.Path, kinds []config.OnePodKind) field.ErrorList {
	var errs field.ErrorList
	if len(kinds) > maxOnePodKinds {
		errs = append(errs, field.TooMany(path, len(kinds), maxOnePodKinds))
	}
	seen := sets.New[config.OnePodKind]()
	for i, k := range kinds {
		at := path.Index(i)
		errs = append(errs, validateKind(at, k)...)
		if k.SetLabel != "" {
			errs = append(errs, validateLabelKey(at.Child("setLabel"), k.SetLabel)...)
		}
		key := config.OnePodKind{APIGroup: k.APIGroup, Kind: k.Kind}
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(at.Child("kind"), k.Kind))
		}
		seen.Insert(key)
	}
	return errs
}

func validateKind(at *field.Path, k config.OnePodKind) field.ErrorList {
	var errs field.ErrorList
	if k.APIGroup == "" {
		errs = append(errs, field.Required(at.Child("apiGroup"), "must be an API group, such as actions.github.com"))
	} else {
		for _, problem := range validation.IsDNS1123Subdomain(k.APIGroup) {
			errs = append(errs, field.Invalid(at.Child("apiGroup"), k.APIGroup, problem))
		}
	}
	switch {
	case k.Kind == "":
		errs = append(errs, field.Required(at.Child("kind"), "must be a kind, such as EphemeralRunner"))
	case len(k.Kind) > maxKindLength:
		errs = append(errs, field.TooLong(at.Child("kind"), k.Kind, maxKindLength))
	default:
		// As the API server checks the kind of a CustomResourceDefinition.
		for _, problem := range validation.IsDNS1035Label(strings.ToLower(k.Kind)) {
			errs = append(errs, field.Invalid(at.Child("kind"), k.Kind, problem))
		}
	}
	return errs
}

// validateCapacityTypeLabel does not check that the node rules match the values: the plugin does.
func validateCapacityTypeLabel(path *field.Path, l *config.CapacityTypeLabel) field.ErrorList {
	errs := validateLabelKey(path.Child("key"), l.Key)
	errs = append(errs, validateLabelValue(path.Child("spot"), l.Spot)...)
	errs = append(errs, validateLabelValue(path.Child("onDemand"), l.OnDemand)...)
	if l.Spot == l.OnDemand {
		errs = append(errs, field.Invalid(path.Child("onDemand"), l.OnDemand, "must differ from spot"))
	}

	return errs
}

func validateNodeRules(path *field.Path, rules []config.NodeRule) field.ErrorList {
	var errs field.ErrorList
	if len(rules) > maxNodeRules {
		errs = append(errs, field.TooMany(path, len(rules), maxNodeRules))
	}

	names := sets.New[string]()
	for i := range rules {
		rulePath := path.Index(i)
		errs = append(errs, validateNodeRule(rulePath, &rules[i])...)
		if name := rules[i].Name; name != "" {
			if names.Has(name) {
				errs = append(errs, field.Duplicate(rulePath.Child("name"), name))
			}
			names.Insert(name)
		}
	}

	return errs
}

func validateNodeRule(path *field.Path, rule *config.NodeRule) field.ErrorList {
	var errs field.ErrorList
	if len(rule.Name) > maxNodeRuleNameLength {
		errs = append(errs, field.TooLong(path.Child("name"), rule.Name, maxNodeRuleNameLength))
	}
	errs = append(errs, validateLabelKey(path.Child("key"), rule.Key)...)
	errs = append(errs, validateEnum(path.Child("operator"), rule.Operator,
		config.NodeRuleIn, config.NodeRuleExists, config.NodeRuleAbsent)...)
	errs = append(errs, validateNodeRuleValues(path.Child("values"), rule)...)
	errs = append(errs, validateNodeRuleRequires(path.Child("requires"), rule)...)
	errs = append(errs, validateEnum(path.Child("capacityType"), rule.CapacityType,
		config.CapacityTypeSpot, config.CapacityTypeOnDemand)...)

	return errs
}

func validateNodeRuleValues(path *field.Path, rule *config.NodeRule) field.ErrorList {
	if rule.Operator != config.NodeRuleIn {
		if len(rule.Values) > 0 {
			return field.ErrorList{field.Invalid(path, rule.Values,
				fmt.Sprintf("must be empty with operator %s, only In compares values", rule.Operator))}
		}

		return nil
	}
	if len(rule.Values) == 0 {
		return field.ErrorList{field.Required(path, "operator In requires at least one value")}
	}

	var errs field.ErrorList
	if len(rule.Values) > maxNodeRuleValues {
		errs = append(errs, field.TooMany(path, len(rule.Values), maxNodeRuleValues))
	}

	return append(errs, validateUnique(path, rule.Values, validateLabelValue)...)
}

// validateUnique validates the elements of a list in which none may be twice.
func validateUnique(path *field.Path, list []string, validate func(*field.Path, string) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	for i, element := range list {
		errs = append(errs, validate(path.Index(i), element)...)
		if slices.Contains(list[:i], element) {
			errs = append(errs, field.Duplicate(path.Index(i), element))
		}
	}

	return errs
}

func validateNodeRuleRequires(path *field.Path, rule *config.NodeRule) field.ErrorList {
	absent := rule.Operator == config.NodeRuleAbsent
	switch {
	case rule.Requires == "" && absent:
		return field.ErrorList{field.Required(path, fmt.Sprintf("operator Absent matches most nodes: "+
			"set it to a label that the nodes must have, or to %q for every node", config.RequiresNothing))}
	case rule.Requires == "":
		return nil
	case rule.Requires == config.RequiresNothing && absent:
		return nil
	case rule.Requires == config.RequiresNothing:
		return field.ErrorList{field.Invalid(path, rule.Requires, "is valid with operator Absent only")}
	case rule.Requires == rule.Key && absent:
		return field.ErrorList{field.Invalid(path, rule.Requires, "is the label that must be absent, so the rule never matches")}
	default:
		return validateLabelKey(path, rule.Requires)
	}
}

func validateBuiltinNodeRules(path *field.Path, args *config.CapacityMixArgs) field.ErrorList {
	errs := validateEnum(path, args.BuiltinNodeRules, config.BuiltinNodeRulesAppend, config.BuiltinNodeRulesOff)
	if args.BuiltinNodeRules == config.BuiltinNodeRulesOff && len(args.NodeRules) == 0 {
		errs = append(errs, field.Invalid(path, args.BuiltinNodeRules, "requires at least one rule in nodeRules, "+
			"otherwise no node has a capacity type"))
	}

	return errs
}

func validateMixSpec(path *field.Path, mix *config.MixSpec) field.ErrorList {
	errs := validateRange(path.Child("spotPercent"), mix.SpotPercent, 0, 100)
	errs = append(errs, validateRange(path.Child("minOnDemand"), mix.MinOnDemand, 0, maxReplicas)...)
	if mix.MaxSpot != nil {
		errs = append(errs, validateRange(path.Child("maxSpot"), *mix.MaxSpot, 0, maxReplicas)...)
	}
	errs = append(errs, validateEnum(path.Child("whenSpotUnavailable"), mix.WhenSpotUnavailable,
		config.WhenSpotUnavailableOnDemand, config.WhenSpotUnavailableWait)...)

	waitPath := path.Child("spotWaitSeconds")
	if wait := mix.SpotWaitSeconds; wait != nil {
		errs = append(errs, validateRange(waitPath, *wait, 0, maxSpotWaitSeconds)...)
		if *wait > 0 && mix.WhenSpotUnavailable == config.WhenSpotUnavailableWait {
			errs = append(errs, field.Invalid(waitPath, *wait,
				"has no effect with whenSpotUnavailable Wait: remove it or use OnDemand"))
		}
	}
	errs = append(errs, validateEnum(path.Child("whenOnDemandUnavailable"), mix.WhenOnDemandUnavailable,
		config.WhenOnDemandUnavailableWait, config.WhenOnDemandUnavailableSpot)...)

	return errs
}

func validateAnnotationPrefixes(path *field.Path, prefixes []string) field.ErrorList {
	if len(prefixes) == 0 {
		return field.ErrorList{field.Required(path, "list at least one prefix, or remove the field to read "+annotationPrefixOurs)}
	}

	return validateUnique(path, prefixes, func(path *field.Path, prefix string) field.ErrorList {
		return validateEnum(path, prefix, annotationPrefixOurs, annotationPrefixOthers)
	})
}

func validateSpotalisNamespaces(path *field.Path, args *config.CapacityMixArgs) field.ErrorList {
	namespaces := args.SpotalisNamespaces
	if namespaces == nil {
		return nil
	}
	if !slices.Contains(args.AnnotationPrefixes, annotationPrefixOthers) {
		return field.ErrorList{field.Forbidden(path, "it has no effect unless annotationPrefixes contains "+annotationPrefixOthers)}
	}
	if len(namespaces) == 0 {
		return field.ErrorList{field.Required(path, "list at least one namespace, or remove the field for all namespaces")}
	}
	if len(namespaces) > maxSpotalisNamespaces {
		return field.ErrorList{field.TooMany(path, len(namespaces), maxSpotalisNamespaces)}
	}

	return validateUnique(path, namespaces, validateNamespace)
}

func validateSpreadKeys(path *field.Path, keys []string) field.ErrorList {
	if len(keys) == 0 {
		return field.ErrorList{field.Required(path, "list at least one node label key, or remove the field for the default; "+
			"to disable spreading, disable the plugin at the score extension point")}
	}

	var errs field.ErrorList
	if len(keys) > maxSpreadKeys {
		errs = append(errs, field.TooMany(path, len(keys), maxSpreadKeys))
	}

	return append(errs, validateUnique(path, keys, validateLabelKey)...)
}

func validateLabelValue(path *field.Path, value string) field.ErrorList {
	return validateText(path, value, validation.IsValidLabelValue)
}

func validateNamespace(path *field.Path, name string) field.ErrorList {
	return validateText(path, name, validation.IsDNS1123Label)
}

func validateText(path *field.Path, text string, check func(string) []string) (errs field.ErrorList) {
	for _, message := range check(text) {
		errs = append(errs, field.Invalid(path, text, message))
	}

	return errs
}

func validateLabelKey(path *field.Path, key string) field.ErrorList {
	if key == "" {
		return field.ErrorList{field.Required(path, "must be a node label key")}
	}

	return metav1validation.ValidateLabelName(key, path)
}

func validateRange(path *field.Path, value, low, high int32) field.ErrorList {
	if value < low || value > high {
		return field.ErrorList{field.Invalid(path, value, fmt.Sprintf("must be between %d and %d", low, high))}
	}

	return nil
}

func validateEnum[T ~string](path *field.Path, value T, allowed ...T) field.ErrorList {
	switch {
	case slices.Contains(allowed, value):
		return nil
	case value == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("must be one of %q", allowed))}
	default:
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
}
