// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/interruptions"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/policies/decision"
)

// pod reads a pod with all that decides about its place.
func (u *User) pod(ctx context.Context, key client.ObjectKey) (*overview.Cluster, *corev1.Pod, error) {
	cluster, err := u.Load(ctx, key.Namespace)
	if err != nil {
		return nil, nil, err
	}
	pod := cluster.Pod(key.Namespace, key.Name)
	if pod == nil {
		if cluster.Missing("pods") {
			return nil, nil, fmt.Errorf("cannot list pods in namespace %s", key.Namespace)
		}
		return nil, nil, apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
	}
	already := len(cluster.Problems)
	if err := LoadLimits(ctx, u.Client, cluster, key.Namespace); err != nil {
		return nil, nil, err
	}
	u.warnOf(cluster.Problems[already:])
	return cluster, pod, nil
}

// Decisions returns the records of the attempts to schedule a pod. lease is that of the scheduler, and berths is set for a pod that
// berth-scheduler schedules.
type Decisions func(ctx context.Context, lease client.ObjectKey, pod *corev1.Pod, berths bool) ([]*decision.Record, error)

// Explain returns why a pod is on its node, with the records of its attempts unless decisions is nil.
func (u *User) Explain(ctx context.Context, key client.ObjectKey, decisions Decisions) (*overview.Explanation, error) {
	cluster, pod, err := u.pod(ctx, key)
	if err != nil {
		return nil, err
	}
	if err := u.AddController(ctx, u.Client, cluster.Settings); err != nil {
		return nil, err
	}
	borrowed, err := u.borrowedEvent(ctx, pod)
	if err != nil {
		u.Warn("cannot read the events of the pod: %v", err)
	}
	e, err := overview.Explain(ctx, overview.PodQuestion{
		Cluster: cluster, Pod: pod, Borrowed: borrowed, Now: u.Now(),
		Room:       func() (overview.Room, func(), error) { return u.room(ctx, cluster) },
		Quarantine: func() (*interruptions.Quarantine, error) { return u.quarantine(ctx, cluster) },
	})
	if err == nil && decisions != nil {
		e.Decisions, err = decisions(ctx, client.ObjectKey(cluster.Profile.Lease), pod, cluster.Berths(pod.Spec.SchedulerName))
	}
	return e, err
}

// borrowedEvent is the last event that reports that a pod borrowed, nil if there is none any more.
func (u *User) borrowedEvent(ctx context.Context, pod *corev1.Pod) (*corev1.Event, error) {
	var list corev1.EventList
	own := fields.SelectorFromSet(fields.Set{"involvedObject.uid": string(pod.UID), "reason": v1alpha1.EventReasonBorrowed})
	err := u.Client.List(ctx, &list, client.InNamespace(pod.Namespace), client.MatchingFieldsSelector{Selector: own})
	if err != nil {
		return nil, err
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || overview.EventTime(e).After(overview.EventTime(last).Time) {
			last = e
		}
	}
	return last, nil
}
