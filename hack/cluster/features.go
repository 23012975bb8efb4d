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

// ServiceAddresses are those of berth-records, for limits and records, and of berth-environments. "" is none.
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
		paths = append(paths, "manifests/rbac/records", "manifests/rbac/records/services")
	}
	if f.Has(Records) {
		paths = append(paths, "manifests/templates")
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
	// SingleProcess runs all controllers and services in berth-controller, with the permissions of all.
	SingleProcess bool
}

// BindSingleProcess binds berth-controller to the permissions of berth-records and berth-environments, as the overlay single-process
// does.
func (c *Cluster) BindSingleProcess(ctx context.Context) error {
	var manifest strings.Builder
	for _, role := range []string{"berth-records", "berth-records-services", "berth-environments", "berth-environments-services"} {
		fmt.Fprintf(&manifest, `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: berth-controller-as-%[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects:
- {kind: ServiceAccount, name: berth-controller, namespace: berth-system}
`, role)
	}
	return c.Apply(ctx, manifest.String())
}

// process is one of berth-controller, with a part of the controllers.
type process struct {
	name, user, config string
	controllers        []any
	serve              []string
	args               []string
}

// processes returns those that run the features of a cluster: a Deployment of each is in manifests.
func (o *ControllersOptions) processes() []process {
	serve := o.Serve.Of(o.Features)
	main := process{name: "berth-controller", user: BerthControllerUser, config: o.Config, controllers: []any{"*"}, args: o.Args}
	var others []process
	if o.Features.Has(Records) || serve.Berth != "" {
		p := process{
			name: "berth-records", user: BerthRecordsUser, config: filepath.Join(o.Root, "manifests/records/config.yaml"), controllers: []any{},
			serve: []string{serve.Berth},
		}
		if o.Features.Has(Records) {
			p.controllers = []any{Records}
		}
		others = append(others, p)
	}
	if o.Features.Has(Environments) {
		others = append(others, process{
			name: "berth-environments", user: BerthEnvironmentsUser, config: filepath.Join(o.Root, "manifests/environments/config.yaml"),
			controllers: []any{Environments}, serve: []string{serve.Environments},
		})
	}
	if !o.SingleProcess {
		return append([]process{main}, others...)
	}
	for i := range others {
		main.controllers = append(main.controllers, others[i].controllers...)
		main.serve = append(main.serve, others[i].serve...)
	}
	return []process{main}
}

// StartControllers starts berth-controller, and berth-records and berth-environments if the cluster has their features.
func (c *Cluster) StartControllers(ctx context.Context, o ControllersOptions) error {
	if o.SingleProcess {
		if err := c.BindSingleProcess(ctx); err != nil {
			return err
		}
	}
	for _, p := range o.processes() {
		config, err := c.controllerConfig(&p)
		if err != nil {
			return err
		}
		if _, err := c.StartController(ctx, ProgramOptions{
			Name: p.name, User: p.user, Binary: o.Binary, ConfigFile: config, Args: p.args,
		}); err != nil {
			return err
		}
	}
	return nil
}

// controllerConfig writes the configuration of a process: that of its file, with its controllers and services.
func (c *Cluster) controllerConfig(p *process) (string, error) {
	text, err := os.ReadFile(filepath.Clean(p.config))
	if err != nil {
		return "", err
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return "", fmt.Errorf("read %s: %w", p.config, err)
	}
	config["controllers"] = p.controllers
	if slices.Contains(p.controllers, any(Records)) {
		if records := section(config, "records"); records["odgmImage"] == nil || records["odgmImage"] == "" {
			records["odgmImage"] = odgmStandIn
		}
	}
	if addresses := slices.DeleteFunc(slices.Clone(p.serve), func(address string) bool { return address == "" }); len(addresses) > 0 {
		services := section(config, "services")
		services["bindAddress"], services["extraBindAddresses"] = addresses[0], addresses[1:]
	}
	if text, err = yaml.Marshal(config); err != nil {
		return "", err
	}
	file := filepath.Join(c.dir, p.name+".yaml")
	return file, os.WriteFile(file, text, 0o600)
}

// section returns a section of a configuration, which is made if it is missing.
func section(config map[string]any, name string) map[string]any {
	s, _ := config[name].(map[string]any)
	if s == nil {
		s = map[string]any{}
		config[name] = s
	}
	return s
}
