// SPDX-License-Identifier: Apache-2.0

// Package upgrade_test replaces the programs of an earlier version of Berth by those of this one on a cluster with workloads, and
// the other way round. It builds the earlier ones from the history of the repository. That takes minutes and is not part of
// `make test`: `make test-upgrade`.
package upgrade_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builds"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{NoCRDs: true, NoRBAC: true, NoScheduler: true}))
}

// previous is the last commit that was built with the libraries of Kubernetes 1.34.
const previous = "1692b8ec41e2e8334119489d6808565e87ae9ec1"

// version is one of Berth.
type version struct {
	name string
	// root is the folder of its files, the others are its programs.
	root, scheduler, controller string
}

// versions returns the earlier version and this one.
func versions(t *testing.T) (earlier, this version) {
	t.Helper()
	files, err := builds.Files(t.Context(), testenv.Path("."), previous)
	require.NoError(t, err)
	return build(t, version{name: "earlier", root: files}, false), build(t, version{name: "this", root: testenv.Path(".")}, testenv.Race())
}

func build(t *testing.T, v version, race bool) version {
	t.Helper()
	var err error
	v.scheduler, err = cluster.BuildScheduler(t.Context(), v.root, os.Stderr, race)
	require.NoError(t, err)
	v.controller, err = cluster.BuildController(t.Context(), v.root, os.Stderr, race)
	require.NoError(t, err)
	return v
}

// configuration is that of berth-controller, and stays as it is through an upgrade. Nothing keeps the controller from moving a
// replica at once, and it reconciles everything at the shortest interval that there is.
const configuration = `
apiVersion: config.berth.dev/v1alpha1
kind: ControllerConfiguration
controllers: ["*", records]
resyncSeconds: 5
mix: {rebalance: {stabilizationSeconds: 0, startupGraceSeconds: 0}}
webhook: {enabled: true, bindAddress: %q}
`

// environments is the configuration of the process that runs Environments.
const environments = `
apiVersion: config.berth.dev/v1alpha1
kind: ControllerConfiguration
controllers: [environments]
resyncSeconds: 5
environments:
  domains: {"*": ["*.example.com"]}
  outsideNetworks: [10.1.0.0/16]
`

// programs are those of one version.
type programs struct {
	scheduler                *cluster.Scheduler
	controller, environments *cluster.Controller
	// webhook is where they serve it.
	webhook string
}

// site is a cluster with Berth and two tenants. What the one has is not changed while Berth is replaced, what the last one has is.
type site struct {
	tenant
	last    *tenant
	running *programs
}

// install makes a site on which a version runs.
func install(t *testing.T, v version) *site {
	t.Helper()
	w := testenv.New(t, testenv.Roomy()...)
	s := &site{tenant: tenant{World: w, workloads: kinds, record: record(), environment: large(), replicas: 5}}
	t.Cleanup(s.cleanUp)
	s.last = &tenant{World: s.In(t), workloads: kinds[:1], record: record(), environment: small(), replicas: 2}
	address := s.FreeAddress()
	s.apply(v, address)
	s.Inject("enabled")
	s.running = s.start(v, address)
	s.leads()
	s.WaitAsked()
	return s
}

// run reports whether the running programs have not ended.
func (s *site) run() (bool, string) {
	if ok, log := testenv.Runs(s.running.scheduler); !ok {
		return false, log
	}
	if ok, log := testenv.Runs(s.running.environments); !ok {
		return false, log
	}
	return testenv.Runs(s.running.controller)
}

// cleanUp shows the logs if the test failed, and ends the programs.
func (s *site) cleanUp() {
	p := s.running
	if p == nil {
		return
	}
	if s.T.Failed() {
		s.T.Log("end of the controller's log:\n" + p.controller.LogTail(40))
		s.T.Log("end of the log of the controller of environments:\n" + p.environments.LogTail(40))
	}
	p.end()
}

// apply applies the manifests of a version. It leaves its Deployments out: the programs run as processes, and serve the webhook at an
// address.
func (s *site) apply(v version, webhook string) {
	s.T.Helper()
	var folders []string
	for _, name := range []string{"crds", "rbac", "rbac/records", "rbac/environments", "rbac/webhook", "templates"} {
		folders = append(folders, filepath.Join(v.root, "manifests", name))
	}
	require.NoError(s.T, s.Cluster.ApplyFiles(s.Ctx, folders...))
	require.NoError(s.T, s.Cluster.BindSingleProcess(s.Ctx))
	s.applyWebhook(v, webhook)
}

func (s *site) applyWebhook(v version, address string) {
	s.T.Helper()
	require.NoError(s.T, s.Cluster.ApplyWebhook(s.Ctx, filepath.Join(v.root, "manifests/webhook/webhook.yaml"), address))
}

// start starts the programs of a version and waits until they are ready. They are standbys while those of another version run.
func (s *site) start(v version, webhook string) *programs {
	s.T.Helper()
	p := &programs{webhook: webhook}
	p.scheduler = s.StartScheduler(cluster.ProgramOptions{
		Name: v.name + "-scheduler", Binary: v.scheduler, ConfigFile: filepath.Join(v.root, testenv.SecondScheduler),
	})
	s.SetScheduler(p.scheduler)
	p.controller = s.startController(v, "controller", cluster.BerthControllerUser, fmt.Sprintf(configuration, webhook))
	p.environments = s.startController(v, "environments", cluster.BerthEnvironmentsUser, environments)
	return p
}

func (s *site) startController(v version, name, user, config string) *cluster.Controller {
	s.T.Helper()
	c, err := s.Cluster.StartController(s.Ctx, cluster.ProgramOptions{
		Name: v.name + "-" + name, Binary: v.controller, User: user, ConfigFile: testenv.WriteFile(s.T, name+".yaml", config),
	})
	require.NoError(s.T, err)
	return c
}

// leads waits until each of the running programs is the leader.
func (s *site) leads() {
	s.T.Helper()
	for _, p := range []testenv.Measured{s.running.scheduler, s.running.controller, s.running.environments} {
		testenv.Becomes(s.World, "it leads", 1, func() int { return s.Metric(p, "leader_election_master_status", nil) })
	}
}

// end ends the programs as their kubelets would, and waits until they are gone.
func (p *programs) end() {
	p.scheduler.Terminate()
	p.controller.Terminate()
	p.environments.Terminate()
	for _, done := range []<-chan struct{}{p.scheduler.Done(), p.controller.Done(), p.environments.Done()} {
		<-done
	}
}
