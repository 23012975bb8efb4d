// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// schedulerDeployment is what every way of installing Berth calls its scheduler's Deployment.
const schedulerDeployment = "berth-scheduler"

// schedulerConfigMap and schedulerConfigKey name the configuration of a scheduler that runs as a process, without a Deployment, as
// in a local cluster (hack/cluster). They are what manifests/scheduler calls its own.
const (
	schedulerConfigMap = "berth-scheduler-config"
	schedulerConfigKey = "second-scheduler.yaml"
)

// FromInstalled reads the configuration that the scheduler runs with in the namespace where Berth is installed: the
// ConfigMap that its Deployment mounts, without a Deployment schedulerConfigMap. Where there is none, or neither may be read, it
// returns Defaults.
func FromInstalled(ctx context.Context, c client.Reader, namespace string) (*Settings, error) {
	name, key := schedulerConfigMap, schedulerConfigKey
	var d appsv1.Deployment
	switch err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: schedulerDeployment}, &d); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return orDefaults(err, "get Deployment %s/%s", namespace, schedulerDeployment)
	default:
		if name, key = mountedConfig(&d.Spec.Template.Spec); name == "" {
			return Defaults()
		}
	}
	var cm corev1.ConfigMap
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &cm); err != nil {
		return orDefaults(err, "get ConfigMap %s/%s", namespace, name)
	}
	return FromData([]byte(cm.Data[key]), fmt.Sprintf("ConfigMap %s/%s, key %s", namespace, name, key))
}

func orDefaults(err error, format string, args ...any) (*Settings, error) {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return Defaults()
	}
	return nil, fmt.Errorf(format+": %w", append(args, err)...)
}

// mountedConfig returns the ConfigMap, and the key in it, that the file of a pod's --config comes from, "" if from none.
func mountedConfig(pod *corev1.PodSpec) (name, key string) {
	for _, c := range pod.Containers {
		dir, file := path.Split(configFlag(c.Args))
		for _, mount := range c.VolumeMounts {
			if file == "" || path.Clean(mount.MountPath) != path.Clean(dir) {
				continue
			}
			for _, v := range pod.Volumes {
				if v.Name == mount.Name && v.ConfigMap != nil {
					return v.ConfigMap.Name, file
				}
			}
		}
	}
	return "", ""
}

func configFlag(args []string) string {
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, "--config="); ok {
			return value
		}
		if a == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}
