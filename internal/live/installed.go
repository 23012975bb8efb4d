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

// program is one of Berth that has a configuration.
type program struct {
	// deployment is what every way of installing Berth calls its Deployment.
	deployment string
	// configMap and key name the configuration of one that runs as a process, without a Deployment, as in a local cluster
	// (hack/cluster). They are what manifests calls them.
	configMap, key string
}

var (
	theScheduler  = program{"berth-scheduler", "berth-scheduler-config", "second-scheduler.yaml"}
	theController = program{"berth-controller", "berth-controller-config", "config.yaml"}
)

// config reads the configuration that a program runs with in a namespace: the ConfigMap that its Deployment mounts, without a Deployment
// configMap. It is nil where there is none, or it may not be read.
func (p program) config(ctx context.Context, c client.Reader, namespace string) (data []byte, source string, err error) {
	name, key := p.configMap, p.key
	var d appsv1.Deployment
	switch err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: p.deployment}, &d); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return nil, "", unlessHidden(err, "get Deployment %s/%s", namespace, p.deployment)
	default:
		if name, key = mountedConfig(&d.Spec.Template.Spec); name == "" {
			return nil, "", nil
		}
	}
	var cm corev1.ConfigMap
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &cm); err != nil {
		return nil, "", unlessHidden(err, "get ConfigMap %s/%s", namespace, name)
	}
	return []byte(cm.Data[key]), fmt.Sprintf("ConfigMap %s/%s, key %s", namespace, name, key), nil
}

func unlessHidden(err error, format string, args ...any) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
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
