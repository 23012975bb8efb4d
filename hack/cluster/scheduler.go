// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// BerthSchedulerUser is the identity that the manifests' RBAC is written for.
const BerthSchedulerUser = "system:serviceaccount:berth-system:berth-scheduler"

// LeaderElection overrides fields of the configuration's leaderElection. Zero values change nothing.
type LeaderElection struct {
	Enabled                                   *bool
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// Scheduler is a running scheduler.
type Scheduler struct{ *server }

// StartScheduler starts a scheduler and, unless o.NoWait is set, waits until it is ready.
func (c *Cluster) StartScheduler(ctx context.Context, o ProgramOptions) (*Scheduler, error) {
	o.Name, o.User = cmp.Or(o.Name, "berth-scheduler"), cmp.Or(o.User, BerthSchedulerUser)
	p := &program{ProgramOptions: o}
	if err := c.prepareProgram(p); err != nil {
		return nil, err
	}
	config := filepath.Join(p.dir, "config.yaml")
	if err := writeSchedulerConfig(config, p.ProgramOptions); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.Args = append([]string{
		"--config=" + config,
		"--authentication-kubeconfig=" + p.Kubeconfig,
		"--authorization-kubeconfig=" + p.Kubeconfig,
		"--bind-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.ports[0]),
		"--cert-dir=" + p.dir,
	}, o.Args...)
	p.url = "https://" + loopback(p.ports[0])
	p.ready = []string{p.url + "/readyz", p.url + "/healthz"}
	s, err := c.startProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	return &Scheduler{s}, nil
}

// writeSchedulerConfig writes the configuration with the kubeconfig and the leader election overrides put in.
func writeSchedulerConfig(path string, o ProgramOptions) error {
	config := map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
	if o.ConfigFile != "" {
		b, err := os.ReadFile(o.ConfigFile)
		if err != nil {
			return err
		}
		config = nil
		if err := yaml.Unmarshal(b, &config); err != nil {
			return fmt.Errorf("read %s: %w", o.ConfigFile, err)
		}
		if kind := config["kind"]; kind != "KubeSchedulerConfiguration" {
			return fmt.Errorf("read %s: its kind is %v, not KubeSchedulerConfiguration", o.ConfigFile, kind)
		}
	}
	values := map[string]any{"clientConnection.kubeconfig": o.Kubeconfig}
	if le := o.LeaderElection; le != nil {
		if le.Enabled != nil {
			values["leaderElection.leaderElect"] = *le.Enabled
		}
		for field, d := range map[string]time.Duration{
			"leaderElection.leaseDuration": le.LeaseDuration,
			"leaderElection.renewDeadline": le.RenewDeadline,
			"leaderElection.retryPeriod":   le.RetryPeriod,
		} {
			if d != 0 {
				values[field] = d.String()
			}
		}
	}
	for field, value := range values {
		if err := unstructured.SetNestedField(config, value, strings.Split(field, ".")...); err != nil {
			return fmt.Errorf("set %s: %w", field, err)
		}
	}
	b, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, b, 0o600)
}
