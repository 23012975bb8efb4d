// SPDX-License-Identifier: Apache-2.0

package live

import (
	"context"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/apis/config/controller"
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
	return overview.NewSettings(simulation.DefaultProfile(), overview.ShippedDefaults)
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

// AddController adds the configuration of the controller, for what depends on moves. What else is shown, is so where that is of another
// version: it is no error that it cannot be used.
func (i Installation) AddController(ctx context.Context, c client.Reader, s *overview.Settings) error {
	cfg, source, err := controllerConfiguration(ctx, c, i.SystemNamespace)
	switch {
	case err == nil:
		s.Controller, s.ControllerSource = cfg, source
	case source != "":
		s.ControllerErr = err
	default:
		return err
	}
	return nil
}

// Load reads a namespace, or all with "". The configuration of the scheduler is read each time: it may change.
func (i Installation) Load(ctx context.Context, c client.Client, namespace string) (*overview.Cluster, error) {
	settings, err := i.Settings(ctx, c)
	if err != nil {
		return nil, err
	}
	return Load(ctx, c, settings, namespace)
}

// FromInstalled reads the configuration that the scheduler runs with in the namespace where Berth is installed. Where there is none, or it
// may not be read, it returns Defaults.
func FromInstalled(ctx context.Context, c client.Reader, namespace string) (*overview.Settings, error) {
	data, source, err := theScheduler.config(ctx, c, namespace)
	switch {
	case err != nil:
		return nil, err
	case data == nil:
		return Defaults()
	}
	return FromData(data, source)
}

// controllerConfiguration reads the configuration that the controller runs with in the namespace where Berth is installed. Where there is
// none, or it may not be read, it is the shipped one. Source describes where it comes from, for users, also if it cannot be used. Flags
// of the controller are not in it.
func controllerConfiguration(ctx context.Context, c client.Reader, namespace string) (
	cfg *controller.Configuration, source string, err error,
) {
	data, source, err := theController.config(ctx, c, namespace)
	switch {
	case err != nil:
		return nil, "", err
	case data == nil:
		return controller.Default(), overview.ShippedDefaults, nil
	}
	cfg = controller.Default()
	if err := yaml.Unmarshal(data, cfg); err != nil { // not strict: a controller of another version has other fields
		return nil, source, fmt.Errorf("controller configuration in %s: %w", source, err)
	}
	return cfg, source, nil
}
