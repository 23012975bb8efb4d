// SPDX-License-Identifier: Apache-2.0

package console

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// editedKind is a kind of objects that users create, edit and delete: a table of the fields of its form.
type editedKind struct {
	id, kind, noun string
	// follows is what follows from a change, in a sentence.
	follows string
	fields  []formField
	// spec is that of a new object.
	spec func() map[string]any
	// deleted is what follows from the deletion of an object, in a sentence, nil where nothing does for pods.
	deleted func(client.Object) string
	// wrote shows an object that was written, or that is gone.
	wrote func(r *overview.Reading, o *unstructured.Unstructured, gone bool) error
}

// nodeAffinity is the field of a ResourceLimit with terms.
const nodeAffinity = "spec.nodeAffinity."

// editedKinds are all of them, by their ids.
var editedKinds = map[string]*editedKind{
	mixList.id: {
		id: mixList.id, kind: mixList.kind, noun: mixList.noun,
		follows: "Where replicas are on the other type, berth-controller moves them one after another, and new replicas follow the mix at once.",
		wrote:   wroteTo(func(r *overview.Reading) *[]*v1alpha1.CapacityMix { return &r.Mixes }),
		spec:    func() map[string]any { return map[string]any{"selector": map[string]any{}, "spotPercent": int64(50)} },
		fields: []formField{
			{path: "spec.selector.matchLabels", label: "Labels of the pods", hint: "One key=value in a line; all pods of the namespace without a line", kind: labelsField, parent: true},
			{path: "spec.spotPercent", label: "Spot, in percent of the replicas", hint: "0 to 100", kind: numberField},
			{path: "spec.minOnDemand", label: "Floor: replicas on on-demand nodes before any runs on spot", hint: "0 if empty", kind: numberField},
			{path: "spec.maxSpot", label: "Cap: maximum number of replicas on spot nodes", hint: "No cap if empty", kind: numberField},
			{path: "spec.group", label: "Which pods are divided together", choices: []string{
				string(v1alpha1.PodGroupingController), string(v1alpha1.PodGroupingSelector), string(v1alpha1.PodGroupingTop),
			}},
			{path: "spec.whenSpotUnavailable", label: "Without free spot capacity", choices: []string{
				string(v1alpha1.WhenSpotUnavailableOnDemand), string(v1alpha1.WhenSpotUnavailableWait),
			}},
			{path: "spec.spotWaitSeconds", label: "Wait for spot capacity, in seconds", kind: numberField},
			{path: "spec.whenOnDemandUnavailable", label: "Without free on-demand capacity", choices: []string{
				string(v1alpha1.WhenOnDemandUnavailableWait), string(v1alpha1.WhenOnDemandUnavailableSpot),
			}},
			{path: "spec.spreadSpotOver", label: "Node labels of an interruption domain", hint: "Separated by commas", kind: listField},
			{path: "spec.whenDomainInterrupted", label: "While an interruption domain is in quarantine", choices: []string{
				string(v1alpha1.WhenDomainInterruptedScheduleAnyway), string(v1alpha1.WhenDomainInterruptedDoNotSchedule),
			}},
			{
				path: "spec.maxPerDomain", label: "Maximum number of replicas in one domain", kind: limitsField,
				hint: "One label of nodes in a line, with a number or a percentage, such as topology.kubernetes.io/zone=40%",
			},
			{path: "spec.rebalance.mode", label: "Moves", choices: []string{
				string(v1alpha1.RebalanceModeEvict), string(v1alpha1.RebalanceModeReport), string(v1alpha1.RebalanceModeOff),
			}},
			{path: "spec.rebalance.paused", label: "Pause all moves", kind: boolField},
			{path: "spec.rebalance.strategy", label: "How a replica moves", hint: "With Surge its replacement is available first", choices: []string{
				string(v1alpha1.RebalanceStrategyEvict), string(v1alpha1.RebalanceStrategySurge),
				string(v1alpha1.RebalanceStrategySurgeOrEvict),
			}},
			{path: "spec.deletionCost", label: "Deletion costs of the pods that other clients overwrite", choices: []string{
				string(v1alpha1.DeletionCostsEnforce), string(v1alpha1.DeletionCostsRespect),
			}},
			{path: "spec.rebalance.maxConcurrent", label: "Moves at the same time", hint: "1 to 100", kind: numberField},
			{path: "spec.rebalance.maxMovesPerHour", label: "Moves in an hour", hint: "No limit if empty", kind: numberField},
		},
	},
	limitList.id: {
		id: limitList.id, kind: limitList.kind, noun: limitList.noun, deleted: limitDeleted,
		follows: "It applies to pods that are not bound yet. Pods that run stay where they are.",
		wrote:   wroteTo(func(r *overview.Reading) *[]*v1alpha1.ResourceLimit { return &r.Limits }),
		spec:    func() map[string]any { return map[string]any{} },
		fields: []formField{
			{path: "spec.description", label: "Description", kind: proseField},
			{path: "spec.cpu", label: "CPU", hint: "Requested cores: 500m, 2"},
			{path: "spec.memory", label: "Memory", hint: "Requested bytes: 512Mi, 2Gi"},
			{path: "spec.cpuLimit", label: "CPU limit", hint: "CPU if empty"},
			{path: "spec.memoryLimit", label: "Memory limit", hint: "Memory if empty"},
			{path: "spec.ephemeralStorage", label: "Ephemeral storage", hint: "Bytes on the node"},
			{path: "spec.nodeSelector", label: "Labels of the nodes", hint: "One key=value in a line; a node must have all of them", kind: labelsField},
			{
				path: nodeAffinity + "requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms", label: "Node affinity: a node must match a line",
				hint: "Such as gpu In a100, h100 and old DoesNotExist", kind: termsField,
			},
			{
				path: nodeAffinity + "preferredDuringSchedulingIgnoredDuringExecution", label: "Node affinity: preferred nodes", kind: preferredField,
				hint: "Each line with its weight, such as 50: disk In ssd",
			},
		},
	},
	policyList.id: {
		id: policyList.id, kind: policyList.kind, noun: policyList.noun,
		follows: "It applies to pods that are not bound yet. Pods that run stay where they are.",
		wrote:   wroteTo(func(r *overview.Reading) *[]*v1alpha1.SchedulingPolicy { return &r.Policies }),
		spec:    func() map[string]any { return map[string]any{"podSelector": map[string]any{}} },
		fields: []formField{
			{path: "spec.podSelector.matchLabels", label: "Labels of the pods", hint: "One key=value in a line; all pods of the namespace without a line", kind: labelsField, parent: true},
			{path: "spec.score.preset", label: "Score functions", choices: []string{
				string(v1alpha1.ScorePresetBalanced), string(v1alpha1.ScorePresetSpread), string(v1alpha1.ScorePresetPack),
				string(v1alpha1.ScorePresetLocality), string(v1alpha1.ScorePresetCost),
			}},
			{path: "spec.select.tieBreaker", label: "Tie-breaker", choices: []string{
				string(v1alpha1.TieBreakerName), string(v1alpha1.TieBreakerRandom), string(v1alpha1.TieBreakerLeastLoaded),
				string(v1alpha1.TieBreakerRoundRobin), string(v1alpha1.TieBreakerWeightedRandom), string(v1alpha1.TieBreakerAffinityBased),
			}},
			{path: "spec.bind.mode", label: "Binding", choices: []string{
				string(v1alpha1.BindOptimistic), string(v1alpha1.BindPessimistic), string(v1alpha1.BindTwoPhase),
			}},
			{path: "spec.bind.groupSize", label: "Pods of a group, with TwoPhase", hint: "2 to 100", kind: numberField},
			{path: "spec.decisions.record", label: "Record attempts", choices: []string{
				string(v1alpha1.RecordNever), string(v1alpha1.RecordOnFailure), string(v1alpha1.RecordAlways),
			}},
			{path: "spec.decisions.candidates", label: "Nodes of a record", hint: "1 to 50", kind: numberField},
			{path: "spec.decisions.objects", label: "Also write records as SchedulingDecisions", kind: boolField},
		},
	},
	reservationList.id: {
		id: reservationList.id, kind: reservationList.kind, noun: reservationList.noun,
		follows: "The scheduler holds capacity for it where nodes have it. Pods that use the capacity stay where they are.",
		wrote:   wroteTo(func(r *overview.Reading) *[]*v1alpha1.Reservation { return &r.Reservations }),
		spec:    func() map[string]any { return map[string]any{"podSelector": map[string]any{}} },
		fields: []formField{
			{path: "spec.podSelector.matchLabels", label: "Labels of the pods", hint: "One key=value in a line", kind: labelsField, parent: true},
			{path: "spec.podName", label: "Only for the pod", hint: "In place of labels", instead: "spec.podSelector"},
			{path: "spec.replicas", label: "Number of pods", hint: "1 to 100", kind: numberField},
			{path: "spec.cpu", label: "CPU for each pod", hint: "500m, 2"},
			{path: "spec.memory", label: "Memory for each pod", hint: "512Mi, 2Gi"},
			{path: "spec.ephemeralStorage", label: "Ephemeral storage for each pod", hint: "10Gi"},
			{path: "spec.nodeSelector", label: "Labels of the nodes", hint: "One key=value in a line", kind: labelsField},
			{path: "spec.nodeName", label: "Only on the node"},
			{path: "spec.schedulerName", label: "Scheduler profile"},
			{path: "spec.expirationSeconds", label: "Expires after, in seconds", kind: numberField},
			{path: "spec.ttlSecondsAfterFinished", label: "Deleted after its end, in seconds", kind: numberField},
			{path: "spec.allocateOnce", label: "For one use only", kind: boolField},
		},
	},
}

// wroteTo shows an object in a list of a reading.
func wroteTo[T any, P interface {
	*T
	client.Object
}](list func(*overview.Reading) *[]P) func(r *overview.Reading, o *unstructured.Unstructured, gone bool) error {
	return func(r *overview.Reading, o *unstructured.Unstructured, gone bool) error {
		typed := P(new(T))
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed); err != nil {
			return err
		}
		all := list(r)
		*all = without(*all, typed)
		if !gone {
			*all = append(*all, typed)
		}
		return nil
	}
}

// newObject is a new object of a kind.
func (k *editedKind) newObject(namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": k.spec()}}
	o.SetGroupVersionKind(v1alpha1.SchemeGroupVersion.WithKind(k.kind))
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
