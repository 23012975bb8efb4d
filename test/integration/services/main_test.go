// SPDX-License-Identifier: Apache-2.0

// Package services_test calls the writing methods of all services by many callers at the same time, with slow answers of the API
// server and kills of the program in between.
package services_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/config/controller"
	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.Options{NoScheduler: true})) }

// atOnce is how many callers there are.
const atOnce = 100

// scene is a program that serves, and what it is started with.
type scene struct {
	*servicetest.Served
	user    string
	changes []func(*controller.Configuration)
}

func serve(t *testing.T, resource string, controllers ...string) *scene {
	t.Helper()
	s := &scene{Served: servicetest.New(t, resource, "manifests/rbac/environments", "manifests/rbac/environments/services")}
	s.user = cluster.BerthControllerUser
	if resource == "environments" {
		s.user = cluster.BerthEnvironmentsUser
	}
	s.changes = append(s.changes, func(c *controller.Configuration) {
		c.Controllers = controllers
		c.Records.ODGMImage = "registry.example/odgm:1"
		c.Services.Environments.Namespace, c.Services.Records.Namespace = s.Namespace, s.Namespace
		c.Services.Limits.Namespace = s.Namespace
		// The calls of one object take turns: on a busy machine the last of them waits for longer than the default.
		c.Services.DefaultTimeoutSeconds, c.Services.MaxTimeoutSeconds = 120, 120
		c.Services.RequestLimits.Calls, c.Services.RequestLimits.CallsPerCaller = 4*atOnce, 4*atOnce
	})
	s.start("")
	return s
}

func (s *scene) start(kubeconfig string) {
	s.T.Helper()
	s.StartWith(cluster.ProgramOptions{Name: "berth-controller", Kubeconfig: kubeconfig}, s.changes...)
}

// kill ends the program with SIGKILL.
func (s *scene) kill() {
	s.T.Helper()
	testenv.End(s.Process, true)
	s.DropLease("berth-system", "berth-controller")
	s.DropLease("berth-system", "berth-environments")
}

func equal() (requests []string) {
	for range atOnce {
		requests = append(requests, "same")
	}
	return requests
}

func different() (requests []string) {
	for i := range atOnce {
		requests = append(requests, fmt.Sprint("r", i))
	}
	return requests
}

// try calls a method in all ways.
func (s *scene) try(t *testing.T, methods func() []method) {
	for i := range methods() {
		m := methods()[i]
		for name, requests := range map[string][]string{"equal": equal(), "different": different()} {
			t.Run(m.name+"/"+name, func(t *testing.T) {
				m.before(t)
				m.judge(t, m.callAll(requests, func() {}), false)
			})
		}
	}
	s.kill()
	slow := s.DelayedKubeconfig(s.user, func(*http.Request) time.Duration { return rand.N(100 * time.Millisecond) })
	s.start(slow)
	for i := range methods() {
		m := methods()[i]
		t.Run(m.name+"/slow answers", func(t *testing.T) {
			m.before(t)
			m.judge(t, m.callAll(different(), func() {}), true)
		})
	}
	for round := range testenv.Length(1, 20) {
		for i := range methods() {
			m := methods()[i]
			t.Run(fmt.Sprintf("%s/killed %d", m.name, round), func(t *testing.T) {
				m.before(t)
				var once sync.Once
				left := rand.IntN(atOnce)
				var mu sync.Mutex
				ended := func() {
					mu.Lock()
					defer mu.Unlock()
					if left--; left <= 0 {
						once.Do(s.Process.Kill)
					}
				}
				answers := m.callAll(different(), ended)
				s.kill()
				s.start("")
				m.judge(t, answers, true)
			})
		}
	}
}

// The Secret and the specification of an environment are of one caller.
func TestEnvironmentsAreWrittenByOneCallerAtATime(t *testing.T) {
	s := serve(t, "environments", controller.ControllerEnvironments)
	s.try(t, s.environments)
	s.releaseEnvironments()
}

func TestBackupsAreWrittenByOneCallerAtATime(t *testing.T) {
	s := serve(t, "environments", controller.ControllerEnvironments)
	s.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operator}})
	s.Create(builders.Grant(operator, builders.ServiceAccount(s.Namespace, operator),
		builders.Rule("", []string{"secrets"}, "get"),
		builders.Rule("berth.dev", []string{"databasebackups", "databaserestores"}, "create", "delete", "get"))...)
	s.try(t, s.backups)
	s.releaseEnvironments()
}

func TestRecordsAreWrittenByOneCallerAtATime(t *testing.T) {
	s := serve(t, "deploymentrecords", controller.ControllerMix)
	s.try(t, s.records)
}

func TestLimitsAreWrittenByOneCallerAtATime(t *testing.T) {
	s := serve(t, "resourcelimits", controller.ControllerMix)
	s.try(t, func() []method { return append(s.limits(), s.restLimits()...) })
}

// The history names the client and the user of a change by the gRPC service, from the controller's cache.
func TestTheHistoryNamesTheClientAndTheUser(t *testing.T) {
	s := serve(t, "environments", controller.ControllerEnvironments)
	c := schedulerv1.NewSchedulerServiceClient(s.Dial(nil))
	made, err := c.CreateEnvironment(s.As(s.Editor), &schedulerv1.CreateEnvironmentRequest{Spec: specification("history", "first")})
	require.NoError(t, err)
	id := made.GetEnvironment().GetId()
	revision := func(n int64) map[string]string {
		var found map[string]string
		s.Eventually("the revision is written", func() (bool, string) {
			list := testenv.List(s.World, &appsv1.ControllerRevisionList{})
			for i := range list.Items {
				if list.Items[i].Revision == n {
					found = list.Items[i].Annotations
				}
			}
			return found != nil, fmt.Sprint(len(list.Items))
		})
		return found
	}
	user := "system:serviceaccount:" + s.Namespace + ":editor"
	for n := range int64(2) {
		have := revision(n + 1)
		require.Equal(t, v1alpha1.ServiceFieldManager, have[v1alpha1.ClientAnnotation])
		require.Equal(t, user, have[v1alpha1.ActorAnnotation])
		if n == 0 {
			testenv.WaitFor(s.World, id, "seen", func(e *v1alpha1.Environment) bool { return e.Status.ObservedGeneration == e.Generation })
			_, err := c.UpdateEnvironment(s.As(s.Editor), &schedulerv1.UpdateEnvironmentRequest{Id: id, Spec: specification("", "second")})
			require.NoError(t, err)
		}
	}
	testenv.Patch(s.World, testenv.Read(s.World, id, &v1alpha1.Environment{}), func(e *v1alpha1.Environment) { e.Spec.Description = "third" })
	require.NotEqual(t, v1alpha1.ServiceFieldManager, revision(3)[v1alpha1.ClientAnnotation])
	s.releaseEnvironments()
}

// The lease has a configuration of its own, and no request has a timeout of it: a program starts behind a slow link, and its watches
// do not end by themselves.
func TestAProgramStartsBehindASlowLink(t *testing.T) {
	s := serve(t, "resourcelimits", controller.ControllerMix, controller.ControllerLimits)
	s.kill()
	for i := range 200 {
		var text strings.Builder // the API server compresses long answers
		for text.Len() < 4<<10 {
			fmt.Fprintf(&text, "%x", rand.Uint64())
		}
		s.Create(&v1alpha1.ResourceLimit{ObjectMeta: objectMeta(fmt.Sprint("limit-", i), text.String())})
	}
	// A list of these takes longer than half of the renew deadline.
	impatient := func(c *controller.Configuration) {
		c.LeaderElection.LeaseDurationSeconds, c.LeaderElection.RenewDeadlineSeconds = 7, 6
	}
	s.changes = append(s.changes, impatient)
	began := time.Now()
	s.start(s.SlowKubeconfig(s.user, 60<<10))
	s.WaitLeads(s.Process)
	t.Logf("it leads after %s", time.Since(began))
	agents := map[string]int{}
	entries, err := s.Cluster.ReadAuditLog(func(e *cluster.AuditEvent) bool {
		return e.User.Username == s.user && e.RequestReceived.After(began)
	})
	require.NoError(t, err)
	for i := range entries {
		e := &entries[i]
		leases := e.ObjectRef.Resource == "leases"
		require.Equal(t, leases, strings.HasSuffix(e.UserAgent, "/leader-election"), "%s %s", e.UserAgent, e.RequestURI)
		if e.Verb != "watch" && !leases && e.ObjectRef.Resource != "" { // a discovery has a timeout of its own
			require.NotContains(t, e.RequestURI, "timeout=", e.UserAgent)
		}
		agents[e.UserAgent]++
	}
	require.Len(t, agents, 2, "%v", agents)
}
