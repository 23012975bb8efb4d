// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	schedconfig "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/plugins/capacitymix"
)

// parallelism of the scheduler, the same for every peer.
const parallelism = 16

// manifest is the profile that Berth ships, from this module's folder.
const manifest = "../../../manifests/scheduler/second-scheduler.yaml"

// writeShipped writes Berth's profile as the other peers have theirs: under the
// name that scheduler_perf counts, with the recorder, with no settings of its
// own but its plugins. A pod is tried on a sample of so many nodes first.
func writeShipped(module, to string, sample int) error {
	text, err := os.ReadFile(filepath.Join(module, manifest))
	if err != nil {
		return err
	}
	var shipped schedconfig.KubeSchedulerConfiguration
	if err := yaml.UnmarshalStrict(text, &shipped); err != nil {
		return fmt.Errorf("%s: %w", manifest, err)
	}
	if len(shipped.Profiles) != 1 {
		return fmt.Errorf("%s: %d profiles, want 1", manifest, len(shipped.Profiles))
	}
	p := shipped.Profiles[0]
	p.SchedulerName = new(corev1.DefaultSchedulerName)
	p.Plugins.MultiPoint.Enabled = append([]schedconfig.Plugin{{Name: recorderName}}, p.Plugins.MultiPoint.Enabled...)
	for i := range p.PluginConfig {
		if c := &p.PluginConfig[i]; c.Name == capacitymix.Name {
			args := map[string]any{}
			if err := json.Unmarshal(c.Args.Raw, &args); err != nil {
				return fmt.Errorf("%s: arguments of %s: %w", manifest, c.Name, err)
			}
			args["nodeSampleSize"] = sample
			if c.Args.Raw, err = json.Marshal(args); err != nil {
				return err
			}
		}
	}
	out := map[string]any{
		"apiVersion": shipped.APIVersion, "kind": shipped.Kind,
		"parallelism": parallelism, "profiles": []schedconfig.KubeSchedulerProfile{p},
	}
	if text, err = yaml.Marshal(out); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
