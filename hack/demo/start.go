// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/capacity"
)

// shippedProfile is the scheduler configuration of the demo, unchanged.
const shippedProfile = "manifests/scheduler/second-scheduler.yaml"

// controllerConfig is the controller configuration of the demo, with shorter times than the shipped one.
const controllerConfig = "hack/demo/controller.yaml"

// programs are the paths of Berth's programs.
type programs struct{ scheduler, controller string }

// build builds the missing programs and returns the paths of Berth's.
func (d *demo) build(ctx context.Context) (p programs, err error) {
	if d.root, err = cluster.RepoRoot(); err != nil {
		return p, err
	}
	if d.profile == "" {
		d.profile = filepath.Join(d.root, shippedProfile)
	}
	d.title("Berth: every replica on the capacity type of its mix")
	d.say("The demo runs on a real Kubernetes control plane on this machine. Only the nodes and the containers are simulated (by " +
		"KWOK). Lines with $ are the commands that you would run; the demo does the same through the API. Every number is counted " +
		"from the API server and checked. To pause after each act: go run ./hack/demo --pause")
	d.gap()
	began := time.Now()
	built, err := cluster.Build(ctx, d.root, d.out, false,
		append(cluster.ControlPlane(), cluster.SchedulerProgram, cluster.ControllerProgram)...)
	if err != nil {
		return p, err
	}
	p.scheduler, p.controller = built[cluster.SchedulerProgram], built[cluster.ControllerProgram]
	d.step("build", "etcd, kube-apiserver, kube-controller-manager, KWOK, Berth", began)
	return p, nil
}

// step prints a completed step.
func (d *demo) step(name, what string, began time.Time) {
	d.line("  %s%s%s", pad(name, 18), pad(what, 70), d.paint(faint, fmt.Sprintf("%5.1f s", time.Since(began).Seconds())))
}

// launch starts the control plane and installs Berth as a user would. stop ends everything and removes the files. It is
// never nil.
func (d *demo) launch(ctx context.Context, p programs) (stop func(), err error) {
	options, release, err := d.lasting(ctx)
	if err != nil {
		return func() {}, err
	}
	began := time.Now()
	if d.cluster, err = cluster.Start(ctx, options); err != nil {
		return release, err
	}
	stop = func() {
		d.cluster.Stop()
		release()
	}
	if err := d.connect(); err != nil {
		return stop, err
	}
	version, err := d.kube.Discovery().ServerVersion()
	if err != nil {
		return stop, err
	}
	d.step("control plane", "Kubernetes "+version.GitVersion+" at "+d.cluster.URL(), began)

	began = time.Now()
	what := "manifests/crds, manifests/rbac"
	if features := d.features(); len(features) > 0 {
		what += ", those of " + strings.Join(features, ", ")
	}
	if err := d.cluster.Install(ctx, d.root, d.features(), func(string) {}); err != nil {
		return stop, err
	}
	d.step("install", what, began)

	began = time.Now()
	_, err = d.cluster.StartScheduler(ctx, cluster.ProgramOptions{Binary: p.scheduler, ConfigFile: d.profile})
	if err != nil {
		return stop, err
	}
	d.step("berth-scheduler", "as its own service account; profile "+filepath.Base(d.profile), began)

	began = time.Now()
	if err := d.startControllers(ctx, p.controller); err != nil {
		return stop, err
	}
	d.step("berth-controller", "all controllers, as one service account; shorter times than shipped", began)
	return stop, nil
}

// startControllers starts what the chosen acts need, with services at free addresses.
func (d *demo) startControllers(ctx context.Context, binary string) error {
	for _, address := range []*string{&d.serve.Berth, &d.serve.Environments} {
		var err error
		if *address, err = cluster.FreeAddress(); err != nil {
			return err
		}
	}
	return d.cluster.StartControllers(ctx, cluster.ControllersOptions{
		Root: d.root, Binary: binary, Config: filepath.Join(d.root, controllerConfig), Features: d.features(), Serve: d.serve,
		SingleProcess: true,
	})
}

func (d *demo) connect() (err error) {
	if d.classifier, err = capacity.NewClassifier(capacity.DefaultRules()); err != nil {
		return err
	}
	d.kube = d.cluster.Client()
	d.client, err = cluster.NewClient(d.cluster.Config())
	return err
}

// lasting returns the directory of the cluster: a temporary one or, if the cluster is kept, the one of `make
// cluster-down`. release gives it up.
func (d *demo) lasting(ctx context.Context) (o cluster.Options, release func(), err error) {
	o.Out = d.out
	if !d.keep {
		return o, func() {}, nil
	}
	o.Dir, o.Detach = filepath.Join(d.root, ".cluster"), true
	unlock, err := cluster.Lock(ctx, o.Dir)
	if err != nil {
		return o, nil, err
	}
	processes, err := cluster.Detached(o.Dir)
	for _, p := range processes {
		if p.Alive() {
			err = errors.New("a local cluster is already running: stop it with `make cluster-down`, or omit --keep")
		}
	}
	if err == nil {
		err = os.RemoveAll(o.Dir)
	}
	if err != nil {
		unlock()
		return o, nil, err
	}
	return o, func() {
		_ = os.RemoveAll(o.Dir)
		unlock()
	}, nil
}

// kept prints how to use the cluster.
func (d *demo) kept() {
	// berth-cluster recognizes a completely started cluster by this file.
	_ = os.WriteFile(filepath.Join(d.cluster.Dir(), "complete"), nil, 0o600)
	d.gap()
	d.say("The cluster is kept (--keep), with what the acts left:")
	d.line("\nexport KUBECONFIG=%s\n", d.cluster.KubeconfigPath())
	d.offer("kubectl get capacitymix,deployment,pods -o wide", "list the objects")
	d.offer("make cluster-down", "stop the cluster")
}
