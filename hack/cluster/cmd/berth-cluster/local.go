// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"berth.dev/berth/hack/cluster"
)

// local is the one cluster of a work tree.
type local struct {
	root, dir string
	out       io.Writer
	serve     cluster.ServiceAddresses
}

type size struct {
	spot, onDemand, pods int
	cpu                  string
	features             cluster.Features
}

func (l local) say(format string, args ...any) { fmt.Fprintf(l.out, format+"\n", args...) }

func (l local) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

// complete is a file that up writes at its end.
func (l local) complete() string { return filepath.Join(l.dir, "complete") }

// up starts the cluster unless it runs.
func (l local) up(ctx context.Context, s size) error {
	processes, err := cluster.Detached(l.dir)
	if err != nil {
		return err
	}
	_, err = os.Stat(l.complete())
	switch dead := stopped(processes); {
	case len(processes) > 0 && len(dead) == 0 && err == nil:
		l.say("The local cluster is already running.")
		l.reportRestarts(processes)
		l.hint(cluster.ServiceAddresses{})
		return nil
	case len(dead) < len(processes):
		return fmt.Errorf("the local cluster runs only in part (%s): run `make cluster-down`, then `make cluster-up`",
			whatIsMissing(dead))
	}
	if l.serve, err = free(ctx, l.serve.Of(s.features)); err != nil {
		return err
	}
	// Nothing of a former cluster runs, after a restart of the machine for instance.
	if err := os.RemoveAll(l.dir); err != nil {
		return err
	}
	if err := l.start(ctx, s); err != nil {
		// The logs stay for a look; the next up or down removes them.
		if stopErr := cluster.StopDetached(l.dir); stopErr != nil {
			err = errors.Join(err, stopErr)
		}
		return err
	}
	if err := os.WriteFile(l.complete(), nil, 0o600); err != nil {
		return err
	}
	l.hint(l.serve.Of(s.features))
	return nil
}

// reportRestarts names the programs that ended and were started again, as happens to the leader on a busy machine.
func (l local) reportRestarts(processes []cluster.DetachedProcess) {
	for _, p := range processes {
		if n := cluster.Restarts(l.dir, p.Name); n > 0 {
			l.say("%s has been restarted (restarts: %d). Its log: %s", p.Name, n, filepath.Join(l.dir, "logs", p.Name+".log"))
		}
	}
}

func whatIsMissing(dead []string) string {
	if len(dead) == 0 {
		return "its start was cut off"
	}
	return "ended: " + strings.Join(dead, ", ")
}

func (l local) start(ctx context.Context, s size) error {
	// Built before anything is started: that is what fails in a tree that is being worked on.
	built, err := cluster.Build(ctx, l.root, l.out, false,
		append(cluster.ControlPlane(), cluster.SchedulerProgram, cluster.ControllerProgram)...)
	if err != nil {
		return err
	}
	l.say("Starting the control plane …")
	c, err := cluster.Start(ctx, cluster.Options{Dir: l.dir, Out: l.out, Detach: true})
	if err != nil {
		return err
	}
	change := func(n *cluster.NodeSpec) { n.CPU, n.Pods = s.cpu, s.pods }
	nodes := append(cluster.Nodes("spot", s.spot, change), cluster.Nodes("on-demand", s.onDemand, change)...)
	if err := c.AddNodes(ctx, nodes...); err != nil {
		return err
	}
	l.say("Nodes: %d spot, %d on-demand.", s.spot, s.onDemand)
	if err := c.Install(ctx, l.root, s.features, func(dir string) { l.say("Installed %s.", dir) }); err != nil {
		return err
	}
	schedulerConfig := filepath.Join(l.root, "manifests/scheduler/second-scheduler.yaml")
	decisions, err := cluster.FreeAddress()
	if err != nil {
		return err
	}
	if _, err := c.StartScheduler(ctx, cluster.ProgramOptions{
		Binary: built[cluster.SchedulerProgram], ConfigFile: schedulerConfig, Args: []string{"--decisions-bind-address=" + decisions},
	}); err != nil {
		return err
	}
	if err := publish(ctx, c, schedulerConfig); err != nil {
		return err
	}
	l.say("Berth's scheduler is ready (schedulerName: berth-scheduler). It serves its decisions at %s:\n"+
		"  kubectl berth explain POD --scores --scheduler-address %s", decisions, decisions)
	if err := c.StartControllers(ctx, cluster.ControllersOptions{
		Root: l.root, Binary: built[cluster.ControllerProgram], Config: filepath.Join(l.root, "manifests/controller/config.yaml"),
		Args: []string{"--scheduler-config=" + schedulerConfig}, Features: s.features, Serve: l.serve,
	}); err != nil {
		return err
	}
	l.say("Berth's controller is ready.")
	return nil
}

// publish stores the scheduler's configuration where kubectl berth finds it, as the manifests do.
func publish(ctx context.Context, c *cluster.Cluster, file string) error {
	config, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return fmt.Errorf("publish the scheduler's configuration: %w", err)
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "berth-scheduler-config", "namespace": "berth-system"},
		"data":     map[string]any{filepath.Base(file): string(config)},
	})
	if err != nil {
		return fmt.Errorf("publish the scheduler's configuration: %w", err)
	}
	return c.Apply(ctx, string(object))
}

func (l local) hint(serve cluster.ServiceAddresses) {
	l.say("")
	l.hintServices(serve)
	l.say(`
export KUBECONFIG=%s

Try:
  kubectl get nodes -L karpenter.sh/capacity-type -L topology.kubernetes.io/zone
  kubectl create deployment web --image=web --replicas=10
  make cluster-down    # when you are done`, l.kubeconfig())
}

// down stops the processes that up started and removes the directory.
func (l local) down() error {
	processes, err := cluster.Detached(l.dir)
	if err != nil {
		return err
	}
	if err := cluster.StopDetached(l.dir); err != nil {
		return err
	}
	if err := os.RemoveAll(l.dir); err != nil {
		return err
	}
	if len(processes) == 0 {
		l.say("No local cluster is running.")
		return nil
	}
	l.say("The local cluster is stopped; .cluster/ is removed.")
	return nil
}

// stopped names the processes that have ended.
func stopped(processes []cluster.DetachedProcess) []string {
	var names []string
	for _, p := range processes {
		if !p.Alive() {
			names = append(names, p.Name)
		}
	}
	return names
}
