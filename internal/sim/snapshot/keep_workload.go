// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

func keepDeployment(d *appsv1.Deployment) *appsv1.Deployment {
	out := &appsv1.Deployment{ObjectMeta: keepMeta(&d.ObjectMeta)}
	out.Spec = appsv1.DeploymentSpec{
		Replicas: copyOf(d.Spec.Replicas), Selector: d.Spec.Selector.DeepCopy(), Template: keepTemplate(&d.Spec.Template),
		MinReadySeconds: d.Spec.MinReadySeconds, Paused: d.Spec.Paused,
	}
	out.Spec.Strategy.Type = d.Spec.Strategy.Type
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		out.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
			MaxUnavailable: copyOf(r.MaxUnavailable), MaxSurge: copyOf(r.MaxSurge),
		}
	}
	out.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Status.ObservedGeneration, Replicas: d.Status.Replicas, UpdatedReplicas: d.Status.UpdatedReplicas,
		ReadyReplicas: d.Status.ReadyReplicas, AvailableReplicas: d.Status.AvailableReplicas,
		UnavailableReplicas: d.Status.UnavailableReplicas,
	}
	return out
}

// keepReplicaSet keeps no template of a ReplicaSet without replicas: ten former revisions of each Deployment would be most of a snapshot.
func keepReplicaSet(r *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	out := &appsv1.ReplicaSet{ObjectMeta: keepMeta(&r.ObjectMeta)}
	out.Spec = appsv1.ReplicaSetSpec{
		Replicas: copyOf(r.Spec.Replicas), Selector: r.Spec.Selector.DeepCopy(), MinReadySeconds: r.Spec.MinReadySeconds,
	}
	if r.Spec.Replicas == nil || *r.Spec.Replicas > 0 || r.Status.Replicas > 0 {
		out.Spec.Template = keepTemplate(&r.Spec.Template)
	}
	out.Status = appsv1.ReplicaSetStatus{
		ObservedGeneration: r.Status.ObservedGeneration, Replicas: r.Status.Replicas,
		FullyLabeledReplicas: r.Status.FullyLabeledReplicas, ReadyReplicas: r.Status.ReadyReplicas,
		AvailableReplicas: r.Status.AvailableReplicas,
	}
	return out
}

func keepStatefulSet(s *appsv1.StatefulSet) *appsv1.StatefulSet {
	out := &appsv1.StatefulSet{ObjectMeta: keepMeta(&s.ObjectMeta)}
	out.Spec = appsv1.StatefulSetSpec{
		Replicas: copyOf(s.Spec.Replicas), Selector: s.Spec.Selector.DeepCopy(), Template: keepTemplate(&s.Spec.Template),
		PodManagementPolicy: s.Spec.PodManagementPolicy, MinReadySeconds: s.Spec.MinReadySeconds, Ordinals: copyOf(s.Spec.Ordinals),
	}
	out.Spec.UpdateStrategy.Type = s.Spec.UpdateStrategy.Type
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		out.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
			Partition: copyOf(r.Partition), MaxUnavailable: copyOf(r.MaxUnavailable),
		}
	}
	for i := range s.Spec.VolumeClaimTemplates { // the volumes of its pods have their names
		c := corev1.PersistentVolumeClaim{}
		c.Name = s.Spec.VolumeClaimTemplates[i].Name
		out.Spec.VolumeClaimTemplates = append(out.Spec.VolumeClaimTemplates, c)
	}
	out.Status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.Status.ObservedGeneration, Replicas: s.Status.Replicas, ReadyReplicas: s.Status.ReadyReplicas,
		CurrentReplicas: s.Status.CurrentReplicas, UpdatedReplicas: s.Status.UpdatedReplicas, AvailableReplicas: s.Status.AvailableReplicas,
		CurrentRevision: s.Status.CurrentRevision, UpdateRevision: s.Status.UpdateRevision,
	}
	return out
}

func keepJob(j *batchv1.Job) *batchv1.Job {
	out := &batchv1.Job{ObjectMeta: keepMeta(&j.ObjectMeta)}
	out.Spec = batchv1.JobSpec{
		Parallelism: copyOf(j.Spec.Parallelism), Completions: copyOf(j.Spec.Completions), CompletionMode: copyOf(j.Spec.CompletionMode),
		Suspend: copyOf(j.Spec.Suspend), BackoffLimit: copyOf(j.Spec.BackoffLimit), Selector: j.Spec.Selector.DeepCopy(),
		ActiveDeadlineSeconds: copyOf(j.Spec.ActiveDeadlineSeconds), PodFailurePolicy: j.Spec.PodFailurePolicy.DeepCopy(),
		Template: keepTemplate(&j.Spec.Template),
	}
	out.Status = batchv1.JobStatus{
		Active: j.Status.Active, Ready: copyOf(j.Status.Ready), Succeeded: j.Status.Succeeded, Failed: j.Status.Failed,
		CompletedIndexes: j.Status.CompletedIndexes, FailedIndexes: copyOf(j.Status.FailedIndexes),
		StartTime: j.Status.StartTime.DeepCopy(), CompletionTime: j.Status.CompletionTime.DeepCopy(),
	}
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, batchv1.JobCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, LastTransitionTime: c.LastTransitionTime,
		})
	}
	return out
}
