// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	// LWS is the operator of LeaderWorkerSet, for Binary and StartOperator.
	LWS = "lws"
	// JobSet is the operator of JobSet.
	JobSet = "jobset"

	lwsModule    = "sigs.k8s.io/lws"
	jobSetModule = "sigs.k8s.io/jobset"
)

// operatorFiles are what the module of an operator has to install, and the webhook that the operator registers last, after its
// controllers.
type operatorFiles struct{ module, crds, role, webhooks, patches, lastWebhook string }

var operators = map[string]operatorFiles{
	LWS: {
		module: lwsModule, crds: "config/crd/bases", role: "config/rbac/role.yaml", webhooks: "config/webhook", patches: "config/webhook",
		lastWebhook: "/validate-disaggregatedset-x-k8s-io-v1-disaggregatedset",
	},
	JobSet: {
		module: jobSetModule, crds: "config/components/crd/bases", role: "config/components/rbac/role.yaml",
		webhooks: "config/components/webhook", patches: "config/components/webhook/patches", lastWebhook: "/validate--v1-pod",
	},
}

// Operator is a running operator of a kind of sets.
type Operator struct{ *server }

// StartOperator installs the CRDs, the role and the webhooks of an operator, LWS or JobSet, as its module has them, starts it, and waits
// until it serves its webhooks. Without it, pods of its sets are refused. One that is started again in the place of another has an
// address of its own.
func (c *Cluster) StartOperator(ctx context.Context, out io.Writer, name string) (*Operator, error) {
	o, known := operators[name]
	if !known {
		return nil, fmt.Errorf("start %s: it is no operator", name)
	}
	binary, err := Binary(ctx, out, name)
	if err != nil {
		return nil, err
	}
	here, err := sourceDir()
	if err != nil {
		return nil, err
	}
	root, err := moduleDir(ctx, filepath.Join(here, sources[name].module), o.module)
	if err != nil {
		return nil, err
	}
	p := &program{ProgramOptions: ProgramOptions{
		Name: name, Binary: binary, User: "system:serviceaccount:" + name + "-system:" + name + "-controller-manager",
	}}
	if err := c.installOperator(ctx, root, name, p.User); err != nil {
		return nil, fmt.Errorf("install %s: %w", name, err)
	}
	if err := c.prepareProgram(p); err != nil {
		return nil, err
	}
	if err := c.configureOperator(p, o.lastWebhook); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s, err := c.startProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := c.applyOperatorWebhooks(ctx, root, name, loopback(p.ports[0])); err != nil {
		s.Kill()
		return nil, fmt.Errorf("install %s: %w", name, err)
	}
	return &Operator{s}, nil
}

// installOperator applies the CRDs and the role of an operator. Its kustomization gives the role a prefix, and binds it.
func (c *Cluster) installOperator(ctx context.Context, root, name, user string) error {
	o := operators[name]
	if err := c.ApplyFiles(ctx, filepath.Join(root, o.crds)); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(root, o.role))
	if err != nil {
		return err
	}
	objects, err := decodeObjects(fmt.Appendf(text, `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s-manager-role}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: %[2]q}
`, name, user))
	if err != nil {
		return err
	}
	for _, object := range objects {
		object.SetName(name + "-" + object.GetName())
	}
	return c.applyObjects(ctx, objects)
}

// configureOperator writes the configuration of an operator, and the certificate of its webhooks.
func (c *Cluster) configureOperator(p *program, lastWebhook string) error {
	cert, key, err := c.pki.server(p.Name + "-webhook-service")
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "config.yaml")
	for path, data := range map[string][]byte{
		filepath.Join(p.dir, "tls.crt"): cert, filepath.Join(p.dir, "tls.key"): key,
		config: fmt.Appendf(nil, `
apiVersion: config.%s.x-k8s.io/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: %d, certDir: %q}
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, p.Name, p.ports[0], p.dir, loopback(p.ports[1])),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	p.Args = []string{"--config=" + config, "--kubeconfig=" + p.Kubeconfig}
	p.url = "https://" + loopback(p.ports[0])
	p.ready = []string{p.url + lastWebhook} // /readyz may be OK before
	return nil
}

// applyOperatorWebhooks applies the webhook configurations of an operator with the patches of its kustomization, which select the pods
// of its sets, and with its address in place of a Service.
func (c *Cluster) applyOperatorWebhooks(ctx context.Context, root, name, address string) error {
	o := operators[name]
	manifest, err := os.ReadFile(filepath.Join(root, o.webhooks, "manifests.yaml"))
	if err != nil {
		return err
	}
	objects, err := decodeObjects(manifest)
	if err != nil {
		return err
	}
	patches := map[string]string{
		"MutatingWebhookConfiguration": "mutating-patch.yaml", "ValidatingWebhookConfiguration": "validating-patch.yaml",
	}
	for _, object := range objects {
		if err := patched(object, filepath.Join(root, o.patches, patches[object.GetKind()])); err != nil {
			return fmt.Errorf("patch %s: %w", object.GetKind(), err)
		}
		if err := reachByURL(object, address, c.pki.ca); err != nil {
			return err
		}
		object.SetName(name + "-" + object.GetName())
	}
	return c.applyObjects(ctx, objects)
}

// patched changes an object by a JSON patch in a YAML file.
func patched(o *unstructured.Unstructured, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	operations, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return err
	}
	before, err := json.Marshal(o)
	if err != nil {
		return err
	}
	after, err := patch.Apply(before)
	if err != nil {
		return err
	}
	return json.Unmarshal(after, o)
}

// server returns a certificate and key for a server on the loopback interface.
func (p *pki) server(name string) (cert, key []byte, err error) {
	template := certTemplate(name)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	return p.sign(template)
}
