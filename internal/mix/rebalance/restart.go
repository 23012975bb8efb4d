// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"berth.dev/berth/internal/mix/clusterstate"
	"berth.dev/berth/internal/mix/governing"
)

// Restart is what the operator of a unit does once one of its pods ends.
type Restart int

const (
	// RestartUnknown means that the owner of the unit was not read, or is of a kind of which that is not known.
	RestartUnknown Restart = iota
	// RestartWhole means that it creates all pods of the unit again.
	RestartWhole
	// RestartSingle means that it does not.
	RestartSingle
)

// recreateGroup is the restartPolicy of a LeaderWorkerSet that creates all pods of a group again.
const recreateGroup = "RecreateGroupOnPodRestart"

// RestartsUnits reports whether a group has units, and an owner of a kind that may create the pods of a unit again as a whole. ReadSet
// reads what it does.
func RestartsUnits(g *clusterstate.Group) bool {
	return g.Units && governing.RestartsWhole(g.Workload.APIVersion, g.Workload.Kind)
}

// ReadSet returns what the owner of units does with them and how many it has. It is the only place where that is read: berth-controller
// moves by it, and the command line and the console plan by it. Get reads the object, which has its kind, namespace and name. What
// the reader may not read is unknown.
func ReadSet(owner clusterstate.Workload, get func(*unstructured.Unstructured) error) (Scale, error) {
	set := &unstructured.Unstructured{}
	set.SetAPIVersion(owner.APIVersion)
	set.SetKind(owner.Kind)
	set.SetNamespace(owner.Namespace)
	set.SetName(owner.Name)
	err := get(set)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
		return Scale{}, nil
	case err != nil:
		return Scale{}, fmt.Errorf("read the restart policy of %s: %w", owner, err)
	}
	policy, _, _ := unstructured.NestedString(set.Object, "spec", "leaderWorkerTemplate", "restartPolicy") // of another type: none
	if policy != recreateGroup || set.GetDeletionTimestamp() != nil {
		return Scale{Restart: RestartSingle}, nil
	}
	n, found, err := unstructured.NestedInt64(set.Object, "spec", "replicas")
	return Scale{Restart: RestartWhole, Replicas: int(n), Known: found && err == nil && n >= 0}, nil
}
