// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"berth.dev/berth/hack/cluster"
)

// The features of a local cluster, beside the mix.
const (
	limits       = "limits"
	records      = "records"
	environments = "environments"
)

// features are the features of a cluster, in this order.
type features []string

var allFeatures = features{limits, records, environments}

// parseFeatures reads a list of features, which may be separated by commas or spaces.
func parseFeatures(text string) (features, error) {
	var chosen features
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if name != "none" && !slices.Contains(allFeatures, name) {
			return nil, fmt.Errorf("--features has %q: it must be a list of %s, or none", name, strings.Join(allFeatures, ", "))
		}
		chosen = append(chosen, name)
	}
	return slices.DeleteFunc(slices.Clone(allFeatures), func(name string) bool { return !slices.Contains(chosen, name) }), nil
}

func (f features) has(name string) bool { return slices.Contains(f, name) }

// addresses are those of the services: of berth-controller, for limits and records, and of berth-environments.
type addresses struct{ berth, environments string }

// documented are the addresses that the documentation has.
var documented = addresses{berth: "127.0.0.1:9444", environments: "127.0.0.1:9445"}

// of returns the addresses that features serve at; "" is none.
func (a addresses) of(f features) addresses {
	if !f.has(limits) && !f.has(records) {
		a.berth = ""
	}
	if !f.has(environments) {
		a.environments = ""
	}
	return a
}

// client is the ServiceAccount, in the namespace default, that the hints use.
const client = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: client, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-client}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects:
- {kind: ServiceAccount, name: client, namespace: default}
`

// manifestsOf returns what features need beside what is always installed.
func (f features) manifests() (paths []string) {
	if f.has(limits) || f.has(records) {
		paths = append(paths, "manifests/rbac/services")
	}
	if f.has(records) {
		paths = append(paths, "manifests/rbac/records", "manifests/templates")
	}
	if f.has(environments) {
		paths = append(paths, "manifests/rbac/environments", "manifests/rbac/environments/services")
	}
	return paths
}

// startControllers starts berth-controller, and berth-environments if the cluster has environments.
func (l local) startControllers(ctx context.Context, c *cluster.Cluster, f features, binary, schedulerConfig string) error {
	controllers := []any{"*"}
	if f.has(records) {
		controllers = append(controllers, records)
	}
	serve := l.serve.of(f)
	config, err := l.controllerConfig("berth-controller", "manifests/controller/config.yaml", controllers, serve.berth)
	if err != nil {
		return err
	}
	if _, err := c.StartController(ctx, cluster.ProgramOptions{
		Binary: binary, ConfigFile: config, Args: []string{"--scheduler-config=" + schedulerConfig},
	}); err != nil {
		return err
	}
	l.say("Berth's controller is ready.")
	if !f.has(environments) {
		return nil
	}
	config, err = l.controllerConfig("berth-environments", "manifests/environments/config.yaml", []any{environments}, serve.environments)
	if err != nil {
		return err
	}
	_, err = c.StartController(ctx, cluster.ProgramOptions{
		Name: "berth-environments", User: cluster.BerthEnvironmentsUser, Binary: binary, ConfigFile: config,
	})
	return err
}

// controllerConfig writes the configuration of a controller: the shipped one, with these controllers, and services at an address
// if it is not empty.
func (l local) controllerConfig(name, shipped string, controllers []any, address string) (string, error) {
	text, err := os.ReadFile(filepath.Join(l.root, shipped))
	if err != nil {
		return "", err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("read %s: %w", shipped, err)
	}
	config["controllers"] = controllers
	if address != "" {
		services, _ := config["services"].(map[string]any)
		if services == nil {
			services = map[string]any{}
		}
		services["bindAddress"] = address
		config["services"] = services
	}
	if text, err = yaml.Marshal(config); err != nil {
		return "", err
	}
	file := filepath.Join(l.dir, name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// areFree reports an address that another program has.
func (a addresses) areFree(ctx context.Context) error {
	for _, address := range []string{a.berth, a.environments} {
		if address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("the services of Berth need %s: %w; end the program that listens there, or set FEATURES=none", address, err)
		}
		_ = listener.Close()
	}
	return nil
}

// hint shows how to call the services.
func (a addresses) hint(say func(format string, args ...any)) {
	var urls string
	if a.berth != "" {
		say("Services of limits and records (gRPC and REST): %s", a.berth)
		urls += " --server-url http://" + a.berth
	}
	if a.environments != "" {
		say("Service of environments (gRPC): %s", a.environments)
		urls += " --environments-server-url http://" + a.environments
	}
	if urls != "" {
		say(`
Call them with a token: kubectl create token client
Or without one, through a proxy on 127.0.0.1:50051:
  kubectl berth proxy --service-account client%s`, urls)
	}
}
