// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/hash"
)

const (
	// maxName is the longest name that an object can have.
	maxName = 253
	// maxLabel is the longest name of a Service, and the longest value of a label.
	maxLabel = 63
)

// RecordName returns the name of the record of a client's deployment id: lower
// case, everything but letters, digits and '-' replaced by '-', none of which at
// its ends. Different ids can have the same name; the record's annotation has
// the one that it was made for. An error describes what is wrong with the id.
func RecordName(id string) (string, error) {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '-'
	}, strings.ToLower(id))
	name = strings.Trim(name, "-")
	switch {
	case id == "":
		return "", fmt.Errorf("must not be empty")
	case name == "":
		return "", fmt.Errorf("%q has no letter from a to z and no digit, so that no name can be made of it", id)
	case len(name) > maxName:
		return "", fmt.Errorf("makes a name of %d characters, more than %d", len(name), maxName)
	}
	return name, nil
}

// names are those of the objects of a record.
type names struct {
	// label is the record's name as the value of a label, class that of its class.
	label, class string
	// limit is the ResourceLimit, functions the workloads of functions, "" for those that run in the ODGM.
	limit, odgmService string
	functions          []string
}

// Labels and annotations that the original sets, and by which its tools find objects and read their protocol.
const (
	oaasOwnerLabel      = "oaas.io/owner"
	oaasClassLabel      = "oaas.io/class"
	oaasHTTP2Annotation = "oaas.io/http2"
)

// labels returns those of the objects of a component.
func (n *names) labels(component string) map[string]string {
	return map[string]string{
		v1alpha1.OwnerLabel: n.label, v1alpha1.ComponentLabel: component, oaasOwnerLabel: n.label, oaasClassLabel: n.class,
	}
}

func namesOf(record *v1alpha1.DeploymentRecord) names {
	return names{
		label:       LabelValue(record.Name),
		class:       LabelValue(record.Spec.DeploymentUnit.ClassKey),
		limit:       ChildName(record.Name, ""),
		odgmService: ChildName(record.Name, "-odgm-svc"),
		functions:   functionNames(record),
	}
}

// functionNames returns the names of the workloads of functions. A function keeps its name for as long as it exists, so that other
// functions can be added or removed without a change of it.
func functionNames(record *v1alpha1.DeploymentRecord) []string {
	functions := record.Spec.DeploymentUnit.Functions
	names, taken := make([]string, len(functions)), map[string]bool{}
	for i := range functions {
		for _, before := range record.Status.Functions {
			if before.FunctionKey == functions[i].FunctionKey && !runsInODGM(&functions[i]) && before.Service != "" {
				names[i] = before.Service
				taken[names[i]] = true
			}
		}
	}
	next := 0
	for i := range functions {
		switch {
		case runsInODGM(&functions[i]) || names[i] != "":
			continue
		case len(functions) == 1:
			names[i] = ChildName(record.Name, "")
			continue
		}
		for names[i] == "" || taken[names[i]] {
			names[i] = ChildName(record.Name, fmt.Sprintf("-fn-%d", next))
			next++
		}
		taken[names[i]] = true
	}
	return names
}

// Hash returns a text that fits into a label and differs for different texts.
func Hash(text string) string {
	return hash.Of(text, hash.Label)
}

// ChildName returns a name for an object of a record that Services can have
// too: a letter first, at most 63 characters. What had to be cut off is replaced
// by a hash of the whole, so that no two records share a name for it.
func ChildName(record, suffix string) string {
	base := record
	if base == "" || base[0] < 'a' || base[0] > 'z' {
		base = "a" + base
	}
	base = strings.ReplaceAll(base, ".", "-") // a record that was not made through the API may have dots
	if len(base)+len(suffix) > maxLabel || base != record && strings.Contains(record, ".") {
		const hashed = 8
		base = strings.TrimRight(base[:min(len(base), maxLabel-len(suffix)-hashed-1)], "-") + "-" + Hash(record)[:hashed]
	}
	return base + suffix
}

// LabelValue returns a text as the value of a label: itself if it can be one, else its hash.
func LabelValue(text string) string {
	if len(validation.IsValidLabelValue(text)) == 0 {
		return text
	}
	return Hash(text)
}
