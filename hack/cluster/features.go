// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The features of a cluster, beside the mix.
const (
	Limits       = "limits"
	Records      = "records"
	Environments = "environments"
)

// Features are the features of a cluster, in the order of AllFeatures.
type Features []string

// AllFeatures returns all of them.
func AllFeatures() Features { return Features{Limits, Records, Environments} }

// Has reports whether a feature is one of them.
func (f Features) Has(name string) bool { return slices.Contains(f, name) }

// Choose returns those of all names that a list has, in the order of all. The list may be separated by commas or spaces.
// It also returns the first name of the list that is not one of all.
func Choose(all []string, list string) (chosen []string, unknown string) {
	names := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, name
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !slices.Contains(names, name) }), ""
}

// ServiceAddresses are those of berth-controller, for limits and records, and of berth-environments. "" is none.
type ServiceAddresses struct{ Berth, Environments string }

// Of returns the addresses that features serve at.
func (a ServiceAddresses) Of(f Features) ServiceAddresses {
	if !f.Has(Limits) && !f.Has(Records) {
		a.Berth = ""
	}
	if !f.Has(Environments) {
		a.Environments = ""
	}
	return a
}

// serviceClient is the ServiceAccount, in the namespace default, whose tokens call the services.
const serviceClient = `
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
---
# edit does not include Environments, because they create namespaces.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-client-environments}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: berth-environment-editor}
subjects:
- {kind: ServiceAccount, name: client, namespace: default}
`

// manifests returns what features need beside what is always installed.
func (f Features) manifests() (paths []string) {
	if f.Has(Limits) || f.Has(Records) {
		paths = append(paths, "manifests/rbac/services")
	}
	if f.Has(Records) {
		paths = append(paths, "manifests/rbac/records", "manifests/templates")
	}
	if f.Has(Environments) {
		paths = append(paths, "manifests/rbac/environments", "manifests/rbac/environments/services")
	}
	return paths
}

// mutatesByPolicy reports whether the API server has MutatingAdmissionPolicies, as since Kubernetes 1.36.
func (c *Cluster) mutatesByPolicy() bool {
	list, err := c.Client().Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	policies := func(r metav1.APIResource) bool { return r.Kind == "MutatingAdmissionPolicy" }
	return err == nil && slices.ContainsFunc(list.APIResources, policies)
}

// Install applies the manifests of Berth and of features, and the ServiceAccount that calls their services. It calls
// report with each directory.
func (c *Cluster) Install(ctx context.Context, root string, f Features, report func(dir string)) error {
	dirs := append([]string{"manifests/crds", "manifests/rbac"}, f.manifests()...)
	if f.Has(Environments) && c.mutatesByPolicy() {
		dirs = append(dirs, "manifests/rbac/environments/actor")
	}
	for _, dir := range dirs {
		if err := c.ApplyFiles(ctx, filepath.Join(root, dir)); err != nil {
			return err
		}
		report(dir)
	}
	if len(f) == 0 {
		return nil
	}
	return c.Apply(ctx, serviceClient)
}

// odgmStandIn is the image of the ODGM of records. The nodes of the cluster run no containers, so that it is never pulled.
const odgmStandIn = "stand-in.invalid/odgm:local"

// ControllersOptions describe the controllers of a cluster with features.
type ControllersOptions struct {
	Root, Binary string
	// Config is the file of berth-controller's configuration. Its controllers and services are replaced.
	Config string
	// Args are more flags of berth-controller.
	Args     []string
	Features Features
	Serve    ServiceAddresses
}

// StartControllers starts berth-controller, and berth-environments if the cluster has environments.
func (c *Cluster) StartControllers(ctx context.Context, o ControllersOptions) error {
	controllers := []any{"*"}
	if o.Features.Has(Records) {
		controllers = append(controllers, Records)
	}
	serve := o.Serve.Of(o.Features)
	config, err := c.controllerConfig("berth-controller", o.Config, controllers, serve.Berth)
	if err != nil {
		return err
	}
	if _, err := c.StartController(ctx, ProgramOptions{Binary: o.Binary, ConfigFile: config, Args: o.Args}); err != nil {
		return err
	}
	if !o.Features.Has(Environments) {
		return nil
	}
	shipped := filepath.Join(o.Root, "manifests/environments/config.yaml")
	config, err = c.controllerConfig("berth-environments", shipped, []any{Environments}, serve.Environments)
	if err != nil {
		return err
	}
	_, err = c.StartController(ctx, ProgramOptions{
		Name: "berth-environments", User: BerthEnvironmentsUser, Binary: o.Binary, ConfigFile: config,
	})
	return err
}

// controllerConfig writes the configuration of a controller: that of a file, with these controllers, and services at an
// address if it is not empty.
func (c *Cluster) controllerConfig(name, from string, controllers []any, address string) (string, error) {
	text, err := os.ReadFile(filepath.Clean(from))
	if err != nil {
		return "", err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("read %s: %w", from, err)
	}
	config["controllers"] = controllers
	if slices.Contains(controllers, any(Records)) {
		records, _ := config["records"].(map[string]any)
		if records == nil {
			records = map[string]any{}
		}
		if image, _ := records["odgmImage"].(string); image == "" {
			records["odgmImage"] = odgmStandIn
		}
		config["records"] = records
	}
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
	file := filepath.Join(c.dir, name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}
