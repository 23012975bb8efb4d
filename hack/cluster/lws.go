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
	// LWSBinary is the name of the operator of LeaderWorkerSet, for Binary.
	LWSBinary = "lws"
	// LWSUser is the identity that the role of the operator is bound to.
	LWSUser = "system:serviceaccount:lws-system:lws-controller-manager"

	lwsModule = "sigs.k8s.io/lws"
)

// lwsRoleBinding is what the namePrefix and the namespace of the operator's kustomization make of its own.
const lwsRoleBinding = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lws-manager-rolebinding}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager-role}
subjects:
- {kind: ServiceAccount, name: lws-controller-manager, namespace: lws-system}
`

// LWS is a running operator of LeaderWorkerSet.
type LWS struct{ *server }

// StartLWS installs the CRDs, the role and the webhooks of the operator of LeaderWorkerSet, as its module has them, starts it, and waits
// until it serves its webhooks. Without it, pods of a LeaderWorkerSet are refused. One that is started again in the place of another
// has an address of its own.
func (c *Cluster) StartLWS(ctx context.Context, out io.Writer) (*LWS, error) {
	binary, err := Binary(ctx, out, LWSBinary)
	if err != nil {
		return nil, err
	}
	here, err := sourceDir()
	if err != nil {
		return nil, err
	}
	root, err := moduleDir(ctx, filepath.Join(here, sources[LWSBinary].module), lwsModule)
	if err != nil {
		return nil, err
	}
	if err := c.ApplyFiles(ctx, filepath.Join(root, "config/crd/bases"), filepath.Join(root, "config/rbac/role.yaml")); err != nil {
		return nil, err
	}
	if err := c.Apply(ctx, lwsRoleBinding); err != nil {
		return nil, err
	}
	p := &program{ProgramOptions: ProgramOptions{Name: LWSBinary, Binary: binary, User: LWSUser}}
	if err := c.prepareProgram(p); err != nil {
		return nil, err
	}
	if err := c.configureLWS(p); err != nil {
		return nil, fmt.Errorf("start %s: %w", LWSBinary, err)
	}
	s, err := c.startProgram(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := c.applyLWSWebhooks(ctx, root, loopback(p.ports[0])); err != nil {
		s.Kill()
		return nil, err
	}
	return &LWS{s}, nil
}

// configureLWS writes the configuration of the operator, and the certificate of its webhooks.
func (c *Cluster) configureLWS(p *program) error {
	cert, key, err := c.pki.server("lws-webhook-service")
	if err != nil {
		return err
	}
	config := filepath.Join(p.dir, "config.yaml")
	for path, data := range map[string][]byte{
		filepath.Join(p.dir, "tls.crt"): cert, filepath.Join(p.dir, "tls.key"): key,
		config: fmt.Appendf(nil, `
apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
webhook: {host: 127.0.0.1, port: %d, certDir: %q}
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
`, p.ports[0], p.dir, loopback(p.ports[1])),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	p.Args = []string{"--config=" + config, "--kubeconfig=" + p.Kubeconfig}
	p.url = "https://" + loopback(p.ports[0])
	// The operator registers it last, after its controllers. /readyz is OK before that.
	p.ready = []string{p.url + "/validate-disaggregatedset-x-k8s-io-v1-disaggregatedset"}
	return nil
}

// applyLWSWebhooks applies the webhook configurations of the operator with the patches of its kustomization, which select the pods of
// LeaderWorkerSets, and with its address in place of a Service.
func (c *Cluster) applyLWSWebhooks(ctx context.Context, root, address string) error {
	dir := filepath.Join(root, "config/webhook")
	manifest, err := os.ReadFile(filepath.Join(dir, "manifests.yaml"))
	if err != nil {
		return fmt.Errorf("apply webhooks of %s: %w", LWSBinary, err)
	}
	objects, err := decodeObjects(manifest)
	if err != nil {
		return fmt.Errorf("apply webhooks of %s: %w", LWSBinary, err)
	}
	patches := map[string]string{
		"MutatingWebhookConfiguration": "mutating-patch.yaml", "ValidatingWebhookConfiguration": "validating-patch.yaml",
	}
	for _, o := range objects {
		if err := patched(o, filepath.Join(dir, patches[o.GetKind()])); err != nil {
			return fmt.Errorf("patch %s of %s: %w", o.GetKind(), LWSBinary, err)
		}
		if err := reachByURL(o, address, c.pki.ca); err != nil {
			return fmt.Errorf("apply %s of %s: %w", o.GetKind(), LWSBinary, err)
		}
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
