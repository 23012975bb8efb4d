// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Names of the components, for StartComponent, StopComponent and Component.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	KWOK              = "kwok"
)

// startOrder lists the components so that each one's dependencies come before it.
var startOrder = []string{Etcd, APIServer, ControllerManager, KWOK}

// Options configures Start. The zero value is a complete cluster in a temporary directory.
type Options struct {
	// Dir holds data, certificates, kubeconfigs and logs. Empty means a temporary directory that Stop removes;
	// a directory given here is kept.
	Dir string
	// Out receives progress, such as what is being built. Nil means os.Stderr.
	Out io.Writer
	// NoKWOK leaves KWOK out: no one runs pods then, and nodes go NotReady after 50 s without a heartbeat.
	NoKWOK bool
	// NoControllerManager leaves kube-controller-manager out. The admission plugins that count on it,
	// ServiceAccount and TaintNodesByCondition, are then off.
	NoControllerManager bool
	// FeatureGates are those of kube-apiserver and kube-controller-manager. If there are any, all versions of all APIs are served.
	FeatureGates map[string]bool
	// APIServerArgs are appended to the command line. The last value of a flag wins.
	APIServerArgs []string
	// Detach lets the processes outlive this one; needs Dir. StopDetached(Dir) ends them.
	Detach bool
}

// Cluster is a running control plane.
type Cluster struct {
	opts  Options
	dir   string
	owner *fileLock // held while we live, so that a later Start recognizes an abandoned directory
	pki   *pki
	ports ports
	bins  map[string]string

	config *rest.Config

	// pool is nil but for a borrowed control plane, whose audit log has entries of earlier users.
	pool      *loan
	auditLog  string
	auditFrom int64
	since     time.Time

	mu         sync.Mutex // guards what follows
	components map[string]*Process
	others     []*Process
	stopped    bool
}

// Start builds what is missing, starts a control plane and waits until it serves.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	if o.Out == nil {
		o.Out = os.Stderr
	}
	if o.Detach && o.Dir == "" {
		return nil, fmt.Errorf("start cluster: Detach needs Dir")
	}
	c := &Cluster{opts: o, bins: map[string]string{}, components: map[string]*Process{}}
	defer func() {
		if err != nil {
			c.Stop()
		}
	}()
	if err = c.build(ctx); err != nil {
		return nil, err
	}
	if err = c.prepare(); err != nil {
		return nil, fmt.Errorf("prepare cluster: %w", err)
	}
	for _, name := range c.wantedComponents() {
		if err = c.launch(ctx, name); err != nil {
			return nil, err
		}
		// The controller manager and KWOK come up side by side.
		if name == Etcd || name == APIServer {
			if err = c.waitReady(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return c, c.waitServing(ctx)
}

// build builds the components that are missing.
func (c *Cluster) build(ctx context.Context) (err error) {
	for _, name := range c.wantedComponents() {
		if c.bins[name], err = Binary(ctx, c.opts.Out, name); err != nil {
			return err
		}
	}
	return nil
}

// waitServing waits for the components started last and for what pods need in the default namespace.
func (c *Cluster) waitServing(ctx context.Context) error {
	for _, name := range c.wantedComponents()[2:] {
		if err := c.waitReady(ctx, name); err != nil {
			return err
		}
	}
	if c.opts.NoControllerManager {
		return nil
	}
	return waitServiceAccount(ctx, c.Client(), "default")
}

func (c *Cluster) wantedComponents() []string {
	var out []string
	for _, name := range startOrder {
		if name == ControllerManager && c.opts.NoControllerManager || name == KWOK && c.opts.NoKWOK {
			continue
		}
		out = append(out, name)
	}
	return out
}

// prepare makes directories, certificates, kubeconfigs and configuration files, and picks ports.
func (c *Cluster) prepare() error {
	if err := c.makeDir(); err != nil {
		return err
	}
	var err error
	if c.pki, err = newPKI(filepath.Join(c.dir, "pki")); err != nil {
		return err
	}
	if c.ports, err = pickPorts(); err != nil {
		return err
	}
	if c.config, err = c.clientConfig("kubernetes-admin", "system:masters"); err != nil {
		return err
	}
	// Each component has its own identity, so that the audit log distinguishes them.
	for user, file := range map[string]string{
		"kubernetes-admin":               c.KubeconfigPath(),
		"system:kube-controller-manager": c.componentKubeconfig(ControllerManager),
		"kwok":                           c.componentKubeconfig(KWOK),
	} {
		if err := c.writeKubeconfig(file, user, "system:masters"); err != nil {
			return err
		}
	}
	return c.writeComponentFiles()
}

// makeDir creates the data directory; a temporary one is marked as ours for as long as we live.
func (c *Cluster) makeDir() error {
	c.dir = c.opts.Dir
	if c.dir == "" {
		removeAbandonedDirs()
		dir, err := os.MkdirTemp("", tempDirPattern)
		if err != nil {
			return err
		}
		c.dir = dir
		if c.owner, err = ownDir(dir); err != nil {
			return err
		}
	}
	abs, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	c.dir = abs
	c.auditLog = filepath.Join(c.LogDir(), "audit.log")
	return os.MkdirAll(c.LogDir(), 0o700)
}

// Stop kills every process of the cluster, those of StartProcess and StartScheduler included, waits until they are gone
// and removes a temporary data directory. It is safe to call twice.
func (c *Cluster) Stop() {
	c.mu.Lock()
	c.stopped = true
	procs := append([]*Process{}, c.others...)
	for _, s := range slices.Backward(startOrder) {
		if p := c.components[s]; p != nil && c.pool == nil {
			procs = append(procs, p)
		}
	}
	c.mu.Unlock()
	for _, p := range procs {
		p.Kill()
	}
	for _, p := range procs {
		<-p.Done()
	}
	if c.pool != nil {
		c.addBorrowedTimes()
		c.pool.end()
	}
	if c.opts.Dir == "" && c.dir != "" {
		_ = os.RemoveAll(c.dir)
	}
	if c.owner != nil {
		c.owner.unlock()
	}
}

// Config returns a client configuration for a cluster administrator, without client-side rate limits.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client returns a clientset for a cluster administrator. It uses protobuf, which costs both sides less than JSON.
func (c *Cluster) Client() kubernetes.Interface {
	config := c.Config()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return kubernetes.NewForConfigOrDie(config)
}

// KubeconfigPath returns the kubeconfig file of a cluster administrator.
func (c *Cluster) KubeconfigPath() string { return filepath.Join(c.dir, "kubeconfig") }

// URL returns the address of the API server.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ports.APIServer) }

// Dir returns the data directory.
func (c *Cluster) Dir() string { return c.dir }

// LogDir returns the directory with one log file per process.
func (c *Cluster) LogDir() string { return filepath.Join(c.dir, "logs") }

// AuditLogPath returns the API server's audit log, one JSON event per line; ReadAuditLog reads it.
func (c *Cluster) AuditLogPath() string { return c.auditLog }

// Component returns a component's current process, or nil if it is not part of the cluster.
func (c *Cluster) Component(name string) *Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.components[name]
}

// StopComponent kills a component with SIGKILL and waits until it is gone.
func (c *Cluster) StopComponent(name string) error {
	p := c.Component(name)
	if p == nil {
		return fmt.Errorf("stop %s: no such component", name)
	}
	if c.pool != nil {
		return c.pool.stop(p)
	}
	p.Kill()
	<-p.Done()
	return nil
}

// StartComponent starts a component again, on the same port and data, and waits until it is ready.
func (c *Cluster) StartComponent(ctx context.Context, name string) error {
	p := c.Component(name)
	if p == nil {
		return fmt.Errorf("start %s: no such component", name)
	}
	if !p.ended() {
		return fmt.Errorf("start %s: it is running", name)
	}
	if c.pool != nil {
		return c.startBorrowed(name)
	}
	if name == KWOK {
		// A killed KWOK still holds the node leases, and a new one would not touch those nodes for 40 s.
		if err := c.releaseNodeLeases(ctx); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	if err := c.launch(ctx, name); err != nil {
		return err
	}
	return c.waitReady(ctx, name)
}

// StartProcess starts a program that Stop ends together with the cluster. An empty Log means a file in LogDir.
func (c *Cluster) StartProcess(ctx context.Context, spec ProcessSpec) (*Process, error) {
	p, err := c.start(ctx, spec)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.others = append(c.others, p)
	c.mu.Unlock()
	return p, c.record()
}

func (c *Cluster) launch(ctx context.Context, name string) error {
	p, err := c.start(ctx, ProcessSpec{Name: name, Path: c.bins[name], Args: c.args(name)})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.components[name] = p
	c.mu.Unlock()
	return c.record()
}

func (c *Cluster) start(ctx context.Context, spec ProcessSpec) (*Process, error) {
	if spec.Log == "" {
		spec.Log = filepath.Join(c.LogDir(), spec.Name+".log")
	}
	spec.detach = c.opts.Detach
	// The lock is held so that Stop sees either no process or a registered one.
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("start %s: the cluster was stopped", spec.Name)
	}
	return StartProcess(ctx, spec)
}

// startTimeout bounds the wait for any one component.
const startTimeout = 3 * time.Minute
