// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/mix/simulation"
)

// FromFile reads a KubeSchedulerConfiguration.
func FromFile(path string) (*overview.Settings, error) {
	data, err := os.ReadFile(path) //nolint:gosec // the user's own file, named on the command line
	if err != nil {
		return nil, fmt.Errorf("read the scheduler's configuration: %w", err)
	}
	return FromData(data, "file "+path)
}

// FromData reads a KubeSchedulerConfiguration that source names.
func FromData(data []byte, source string) (*overview.Settings, error) {
	profile, err := simulation.ParseProfile(data)
	if err != nil {
		return nil, fmt.Errorf("scheduler configuration in %s: %w", source, err)
	}
	return overview.NewSettings(profile, source)
}

// Defaults are the settings of manifests/scheduler/second-scheduler.yaml.
func Defaults() (*overview.Settings, error) {
	return overview.NewSettings(simulation.DefaultProfile(), "the defaults")
}

// Installation is one of Berth.
type Installation struct {
	// SystemNamespace is the namespace of Berth, and SchedulerConfig a file of its scheduler, or "" for what is installed.
	SystemNamespace, SchedulerConfig string
}

// Settings returns the configuration of the scheduler.
func (i Installation) Settings(ctx context.Context, c client.Reader) (*overview.Settings, error) {
	if i.SchedulerConfig != "" {
		return FromFile(i.SchedulerConfig)
	}
	return FromInstalled(ctx, c, i.SystemNamespace)
}

// Load reads a namespace, or all with "". The configuration of the scheduler is read each time: it may change.
func (i Installation) Load(ctx context.Context, c client.Client, namespace string) (*overview.Cluster, error) {
	settings, err := i.Settings(ctx, c)
	if err != nil {
		return nil, err
	}
	return Load(ctx, c, settings, namespace)
}

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
func FromInstalled(ctx context.Context, c client.Reader, namespace string) (*overview.Settings, error) {
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

func orDefaults(err error, format string, args ...any) (*overview.Settings, error) {
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
