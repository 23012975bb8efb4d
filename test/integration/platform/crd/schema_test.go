// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
)

// TestSchema has what the schema itself refuses, without a CEL rule.
func TestSchema(t *testing.T) {
	t.Parallel()
	labels := func(n int) string { return many(n, "v") }
	cases := map[string]schemaCase{
		"a selector of 16 labels is accepted":    {"{selector: {matchLabels: {" + labels(16) + "}}, spotPercent: 50}", ""},
		"a selector of 17 labels is refused":     {"{selector: {matchLabels: {" + labels(17) + "}}, spotPercent: 50}", "spec.selector.matchLabels: Too many: 17: must have at most 16 items"},
		"a mix without a selector is refused":    {"{spotPercent: 50}", "spec.selector: Required value"},
		"a mix without a share is refused":       {"{selector: {}}", "spec.spotPercent: Required value"},
		"a share as text is refused":             {"{selector: {}, spotPercent: '70%'}", `spec.spotPercent: Invalid value: "string": spec.spotPercent in body must be of type integer: "string"`},
		"half a percent is refused":              {"{selector: {}, spotPercent: 70.5}", `spec.spotPercent: Invalid value: "float64": spec.spotPercent in body must be of type int32: "float64"`},
		"a floor of more than int32 is refused":  {"{selector: {}, spotPercent: 50, minOnDemand: 3000000000}", "spec.minOnDemand: Invalid value: 3000000000: minOnDemand must be between 0 and 1000000"},
		"a misspelt field is refused":            {"{selector: {}, spotPercent: 50, spotPercentage: 50}", `strict decoding error: unknown field "spec.spotPercentage"`},
		"an unknown operator is refused":         {"{selector: {matchExpressions: [{key: app, operator: Is}]}, spotPercent: 50}", `spec.selector.matchExpressions[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist"`},
		"an unknown spot fallback is refused":    {"{selector: {}, spotPercent: 50, whenSpotUnavailable: Spot}", `spec.whenSpotUnavailable: Unsupported value: "Spot": supported values: "OnDemand", "Wait"`},
		"an unknown other fallback is refused":   {"{selector: {}, spotPercent: 50, whenOnDemandUnavailable: OnDemand}", `spec.whenOnDemandUnavailable: Unsupported value: "OnDemand": supported values: "Wait", "Spot"`},
		"a fifth spread key is refused":          {"{selector: {}, spotPercent: 50, spreadSpotOver: [a, b, c, d, e]}", "spec.spreadSpotOver: Too many: 5: must have at most 4 items"},
		"an empty list of keys is refused":       {"{selector: {}, spotPercent: 50, spreadSpotOver: []}", "spec.spreadSpotOver: Invalid value: 0: spec.spreadSpotOver in body should have at least 1 items"},
		"a fifth limit of domains is refused":    {"{selector: {}, spotPercent: 50, maxPerDomain: [" + limits("a", "b", "c", "d", "e") + "]}", "spec.maxPerDomain: Too many: 5: must have at most 4 items"},
		"two limits of one key are refused":      {"{selector: {}, spotPercent: 50, maxPerDomain: [" + limits("a", "b", "a") + "]}", `spec.maxPerDomain[2]: Duplicate value: {"topologyKey":"a"}`},
		"a limit without a key is refused":       {"{selector: {}, spotPercent: 50, maxPerDomain: [{maxCount: 2}]}", "spec.maxPerDomain[0].topologyKey: Required value"},
		"a floor as text is refused":             {"{selector: {}, spotPercent: 50, protectFloor: 'yes'}", `spec.protectFloor: Invalid value: "string": spec.protectFloor in body must be of type boolean: "string"`},
		"an unknown action is refused":           {"{selector: {}, spotPercent: 50, maxPerDomain: [{topologyKey: a, maxCount: 2, whenUnsatisfiable: Wait}]}", `spec.maxPerDomain[0].whenUnsatisfiable: Unsupported value: "Wait": supported values: "DoNotSchedule", "ScheduleAnyway"`},
		"an unknown owner of costs is refused":   {"{selector: {}, spotPercent: 50, deletionCost: Ignore}", `spec.deletionCost: Unsupported value: "Ignore": supported values: "Enforce", "Respect"`},
		"an unknown quarantine is refused":       {"{selector: {}, spotPercent: 50, whenDomainInterrupted: Wait}", `spec.whenDomainInterrupted: Unsupported value: "Wait": supported values: "ScheduleAnyway", "DoNotSchedule"`},
		"costs of others are accepted":           {"{selector: {}, spotPercent: 50, deletionCost: Respect}", ""},
		"a label value of 64 letters is refused": {"{selector: {matchLabels: {app: a" + longestName + "}}, spotPercent: 50}", "spec.selector.matchLabels.app: Too long: may not be more than 63 bytes"},
	}
	checkSchema(t, capacityMix, cases)
}

// limits are those of domains by some keys, in YAML.
func limits(keys ...string) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		all[i] = "{topologyKey: " + key + ", maxCount: 2}"
	}

	return strings.Join(all, ", ")
}

// many are n entries of a map in YAML, all of one value.
func many(n int, value string) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf("v%d: %s", i, value)
	}

	return strings.Join(pairs, ", ")
}

// schemaCase is a spec, and the server's error: "" if it accepts it.
type schemaCase struct{ spec, wantErr string }

func checkSchema(t *testing.T, k kind, cases map[string]schemaCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, k, tc.spec)
			if tc.wantErr == "" {
				assert.NoError(t, err)

				return
			}
			require.Error(t, err)
			if !otherServer {
				assert.Contains(t, err.Error(), tc.wantErr)
			}
		})
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got, err := create(t, capacityMix, "{selector: {}, spotPercent: 0}")
	require.NoError(t, err)

	assert.Equal(t, map[string]any{
		"selector": map[string]any{}, "spotPercent": int64(0), "minOnDemand": int64(0),
		"whenSpotUnavailable": "OnDemand", "whenOnDemandUnavailable": "Wait", "deletionCost": "Enforce",
		"whenDomainInterrupted": "ScheduleAnyway",
	}, got.Object["spec"], "spotWaitSeconds stays absent: what that means depends on the pod")
}

// typed returns a client for the Go types.
func typed(t *testing.T) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, v1alpha1.AddToScheme(s))
	c, err := client.New(server.Config(), client.Options{Scheme: s})
	require.NoError(t, err)

	return c
}

func TestGoTypesKeepEveryField(t *testing.T) {
	t.Parallel()
	c := typed(t)
	spec := v1alpha1.CapacityMixSpec{
		Selector: v1alpha1.PodSelector{
			MatchLabels: map[string]string{"app": "web"},
			MatchExpressions: []v1alpha1.PodSelectorRequirement{
				{Key: "tier", Operator: v1alpha1.PodSelectorOpNotIn, Values: []string{"", "batch"}},
				{Key: "canary", Operator: v1alpha1.PodSelectorOpDoesNotExist},
			},
		},
		SpotPercent: 70, MinOnDemand: 2, ProtectFloor: true, MaxSpot: ptr.To[int32](0), SpotWaitSeconds: new(int32(30)),
		WhenSpotUnavailable:     v1alpha1.WhenSpotUnavailableOnDemand,
		WhenOnDemandUnavailable: v1alpha1.WhenOnDemandUnavailableSpot,
		SpreadSpotOver:          []string{"topology.kubernetes.io/zone", "rack"},
		MaxPerDomain: []v1alpha1.DomainLimit{
			{TopologyKey: "topology.kubernetes.io/zone", MaxPercent: new(int32(34)), WhenUnsatisfiable: v1alpha1.WhenDomainFullDoNotSchedule},
			{TopologyKey: "rack", MaxCount: new(int32(2)), WhenUnsatisfiable: v1alpha1.WhenDomainFullScheduleAnyway},
		},
		WhenDomainInterrupted: v1alpha1.WhenDomainInterruptedDoNotSchedule,
		DeletionCost:          v1alpha1.DeletionCostsRespect,
		Tolerations: &v1alpha1.TolerationsByType{
			Spot:     []v1alpha1.Toleration{{Key: "spot", Operator: corev1.TolerationOpEqual, Value: "true", Effect: corev1.TaintEffectNoSchedule}},
			OnDemand: []v1alpha1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(0))}},
		},
		Rebalance: &v1alpha1.RebalanceSpec{Provisioning: v1alpha1.ProvisioningPlaceholder},
	}
	sent := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Name: "typed", Namespace: namespace}, Spec: spec}
	require.NoError(t, c.Create(t.Context(), sent))

	got := &v1alpha1.CapacityMix{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(sent), got))
	assert.Equal(t, spec, got.Spec)
	assert.Equal(t, int64(1), got.Generation)
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	c := typed(t)
	object := &v1alpha1.CapacityMix{ObjectMeta: metav1.ObjectMeta{Name: "status", Namespace: namespace}}
	object.Status.ObservedGeneration = 7
	require.NoError(t, c.Create(t.Context(), object))
	assert.Zero(t, object.Status, "a create takes no status")

	object.Spec.SpotPercent = 99
	object.Status = v1alpha1.CapacityMixStatus{ObservedGeneration: 1, Conditions: []metav1.Condition{{
		Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonConflict, LastTransitionTime: metav1.Now(),
	}}}
	require.NoError(t, c.Status().Update(t.Context(), object))

	got := &v1alpha1.CapacityMix{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(object), got))
	assert.Equal(t, v1alpha1.ReasonConflict, got.Status.Conditions[0].Reason)
	assert.Zero(t, got.Spec.SpotPercent, "a status update changes no spec")
	assert.Equal(t, int64(1), got.Generation)
}

func TestTableShowsTheMix(t *testing.T) {
	t.Parallel()
	normal, wide, cells := tableOf(t, capacityMix, "{selector: {}, spotPercent: 70, minOnDemand: 2, maxSpot: 9, whenSpotUnavailable: Wait}")
	assert.Equal(t, []string{"Name", "Spot-Percent", "Min-On-Demand", "Spot", "On-Demand", "Satisfied", "Age"}, normal)
	assert.Equal(t, []string{"Blocked", "Max-Spot", "No-Spot", "No-On-Demand"}, wide)
	// No controller has written a status here.
	assert.Equal(t, []any{"table", 70.0, 2.0, nil, nil, nil, nil, 9.0, "Wait", "Wait"}, cells[:10])
	assert.NotEmpty(t, cells[10], "age")
}

// tableOf creates an object and requests it as kubectl get does: the columns of the normal and of the wide table, and the cells of both.
func tableOf(t *testing.T, k kind, spec string) (normal, wide []string, cells []any) {
	t.Helper()
	store(t, k, "table", spec)
	cfg := rest.CopyConfig(server.Config())
	cfg.GroupVersion, cfg.APIPath = &v1alpha1.SchemeGroupVersion, "/apis"
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	restClient, err := rest.RESTClientFor(cfg)
	require.NoError(t, err)
	data, err := restClient.Get().Namespace(namespace).Resource(k.resource).Name("table").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	require.NoError(t, err)
	var table metav1.Table
	require.NoError(t, json.Unmarshal(data, &table))
	for _, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			normal = append(normal, column.Name)
		} else {
			wide = append(wide, column.Name)
		}
	}
	require.Len(t, table.Rows, 1)

	return normal, wide, table.Rows[0].Cells
}

func TestDiscoveryHasTheShortNameAndCategory(t *testing.T) {
	t.Parallel()
	c, err := discovery.NewDiscoveryClientForConfig(server.Config())
	require.NoError(t, err)
	list, err := c.ServerResourcesForGroupVersion(v1alpha1.SchemeGroupVersion.String())
	require.NoError(t, err)

	verbs := map[string]metav1.APIResource{}
	for _, resource := range list.APIResources {
		verbs[resource.Name] = resource
	}
	for k, short := range map[kind]string{
		capacityMix: "mix", resourceLimit: "rlim", schedulingPolicy: "spol", reservation: "rsv", decision: "sdec",
	} {
		got := verbs[k.resource]
		assert.Equal(t, k.name, got.Kind)
		assert.Equal(t, strings.ToLower(k.name), got.SingularName)
		assert.Equal(t, []string{short}, got.ShortNames)
		assert.Equal(t, []string{"berth"}, got.Categories)
		assert.True(t, got.Namespaced)
		assert.Equal(t, k != decision, hasStatus(verbs, k), k.name)
	}
}

func hasStatus(resources map[string]metav1.APIResource, k kind) bool {
	_, ok := resources[k.resource+"/status"]
	return ok
}

func TestServerSideApply(t *testing.T) {
	t.Parallel()
	apply := func(owner, name, spec string, force bool) (*unstructured.Unstructured, error) {
		return objects(t, capacityMix).Apply(t.Context(), name, object(t, capacityMix, name, spec), metav1.ApplyOptions{FieldManager: owner, Force: force})
	}

	_, err := apply("team", "applied", "{selector: {matchLabels: {app: web}}, spotPercent: 70, spreadSpotOver: [zone]}", false)
	require.NoError(t, err)
	_, err = apply("platform", "applied", "{selector: {matchLabels: {app: web}}, spotPercent: 70, minOnDemand: 1}", false)
	require.NoError(t, err, "another owner may add a field, and agree on others")
	_, err = apply("platform", "applied", "{selector: {matchLabels: {app: web}}, spotPercent: 50}", false)
	assert.ErrorContains(t, err, `conflict with "team": .spec.spotPercent`)
	_, err = apply("platform", "applied", "{selector: {matchLabels: {tier: front}}, spotPercent: 70}", false)
	assert.ErrorContains(t, err, `conflict with "team": .spec.selector`, "a selector has one owner: two halves would be a third rule")
	_, err = apply("team", "applied", "{selector: {}, spotPercent: 101}", true)
	assert.ErrorContains(t, err, "spotPercent must be between 0 and 100")

	got, err := apply("team", "applied", "{selector: {matchLabels: {app: web}}, spotPercent: 60}", true)
	require.NoError(t, err)
	_, found, err := unstructured.NestedStringSlice(got.Object, "spec", "spreadSpotOver")
	require.NoError(t, err)
	assert.False(t, found, "a field that its owner drops goes away")
	minOnDemand, _, err := unstructured.NestedInt64(got.Object, "spec", "minOnDemand")
	require.NoError(t, err)
	assert.Equal(t, int64(1), minOnDemand, "a field of another owner stays")
}

func TestPatchCannotBreakARule(t *testing.T) {
	t.Parallel()
	store(t, capacityMix, "patched", "{selector: {}, spotPercent: 70, spotWaitSeconds: 30}")
	patch := []byte(`{"spec":{"whenSpotUnavailable":"Wait"}}`)
	_, err := objects(t, capacityMix).Patch(t.Context(), "patched", types.MergePatchType, patch, metav1.PatchOptions{})
	assert.ErrorContains(t, err, "spotWaitSeconds has no effect with whenSpotUnavailable Wait")
}
