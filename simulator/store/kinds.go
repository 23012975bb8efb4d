// SPDX-License-Identifier: Apache-2.0

package store

import (
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"berth.dev/berth/apis/v1alpha1"
)

// Served is a kind that a store may have, and the resource that serves it.
type Served struct {
	schema.GroupVersionResource
	Kind string
	// Object is an empty object of the kind.
	Object     Object
	Namespaced bool
}

// Kinds are all of them.
var Kinds = []Served{
	served("", "v1", "nodes", &corev1.Node{}, false),
	served("", "v1", "pods", &corev1.Pod{}, true),
	served("", "v1", "namespaces", &corev1.Namespace{}, false),
	served("", "v1", "services", &corev1.Service{}, true),
	served("", "v1", "replicationcontrollers", &corev1.ReplicationController{}, true),
	served("", "v1", "configmaps", &corev1.ConfigMap{}, true),
	served("", "v1", "persistentvolumes", &corev1.PersistentVolume{}, false),
	served("", "v1", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{}, true),
	served("", "v1", "resourcequotas", &corev1.ResourceQuota{}, true),
	served("", "v1", "limitranges", &corev1.LimitRange{}, true),
	served("apps", "v1", "replicasets", &appsv1.ReplicaSet{}, true),
	served("apps", "v1", "deployments", &appsv1.Deployment{}, true),
	served("apps", "v1", "statefulsets", &appsv1.StatefulSet{}, true),
	served("autoscaling", "v2", "horizontalpodautoscalers", &autoscalingv2.HorizontalPodAutoscaler{}, true),
	served("batch", "v1", "jobs", &batchv1.Job{}, true),
	served("policy", "v1", "poddisruptionbudgets", &policyv1.PodDisruptionBudget{}, true),
	served("scheduling.k8s.io", "v1", "priorityclasses", &schedulingv1.PriorityClass{}, false),
	served("storage.k8s.io", "v1", "storageclasses", &storagev1.StorageClass{}, false),
	served("storage.k8s.io", "v1", "csinodes", &storagev1.CSINode{}, false),
	served("storage.k8s.io", "v1", "csidrivers", &storagev1.CSIDriver{}, false),
	served("storage.k8s.io", "v1", "csistoragecapacities", &storagev1.CSIStorageCapacity{}, true),
	served("storage.k8s.io", "v1", "volumeattachments", &storagev1.VolumeAttachment{}, false),
	served(v1alpha1.GroupName, "v1alpha1", "capacitymixes", &v1alpha1.CapacityMix{}, true),
}

func served(group, version, resource string, object Object, namespaced bool) Served {
	return Served{
		GroupVersionResource: schema.GroupVersionResource{Group: group, Version: version, Resource: resource},
		Kind:                 reflect.TypeOf(object).Elem().Name(), Object: object, Namespaced: namespaced,
	}
}
