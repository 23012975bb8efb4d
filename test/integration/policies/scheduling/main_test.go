// SPDX-License-Identifier: Apache-2.0

// Package scheduling_test proves, on a real control plane, that the scheduler places pods by their SchedulingPolicies and
// records what it decided.
package scheduling_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/policies/decision"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, testenv.Options{Core: []string{
		"TestEachWorkloadHasItsPolicy",
		"TestAChangedPolicyAppliesToTheNextPods",
		"TestAMixAndAPolicyBothHold",
		"TestADecisionIsRecordedAndServed",
		"TestAProfileHasRulesForPodsWithoutAPolicy",
	}, NoScheduler: true}))
}

// server is where a scheduler serves its records.
type server struct {
	w       *testenv.World
	address string
	granted bool
}

// start starts the second scheduler as it is shipped, with configuration changed.
func start(w *testenv.World, changes ...func(testenv.Config)) *server {
	w.T.Helper()
	s := &server{w: w, address: w.FreeAddress()}
	o := w.Variant(testenv.SecondScheduler, changes...)
	o.Args = append(o.Args, "--decisions-bind-address="+s.address)
	w.RunScheduler(o)
	return s
}

// get reads the records of a pod with a token; the body is what the server answers.
func (s *server) get(namespace, pod, token string) (code int, body string) {
	s.w.T.Helper()
	url := fmt.Sprintf("https://%s%s", s.address, decision.Path(namespace, pod))
	req, err := http.NewRequestWithContext(s.w.Ctx, http.MethodGet, url, http.NoBody)
	require.NoError(s.w.T, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := c.Do(req)
	require.NoError(s.w.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(s.w.T, err)
	return res.StatusCode, string(text)
}

// records are those of a pod, read by a service account that may get it, once the newest has an outcome.
func (s *server) records(pod string, outcome decision.Outcome) []decision.Record {
	s.w.T.Helper()
	token := s.reader()
	var list struct{ Items []decision.Record }
	s.w.Eventually(fmt.Sprintf("the newest record of %s is %s", pod, outcome), func() (bool, string) {
		code, body := s.get(s.w.Namespace, pod, token)
		if code != http.StatusOK {
			return false, body
		}
		list.Items = nil
		require.NoError(s.w.T, json.Unmarshal([]byte(body), &list))
		return len(list.Items) > 0 && list.Items[0].Outcome == outcome, body
	})
	return list.Items
}

// reader returns the token of a service account that may get pods.
func (s *server) reader() string {
	s.w.T.Helper()
	if !s.granted {
		s.w.Create(builders.Grant("reads-pods", builders.ServiceAccount(s.w.Namespace, "default"), builders.Rule("", []string{"pods"}, "get"))...)
		s.granted = true
	}
	return s.w.Token("default")
}

// six are nodes of 4 CPUs in three zones.
func six() []cluster.NodeSpec {
	return cluster.Nodes("", 6, func(n *cluster.NodeSpec) { n.CPU, n.Memory = "4", "16Gi" })
}

func preset(name v1alpha1.ScorePreset) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) { s.Score = &v1alpha1.ScoreRules{Preset: name} }
}

func selects(app string) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) { s.PodSelector.MatchLabels = builders.Labels(app) }
}

func tieBreaker(name v1alpha1.TieBreaker) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) { s.Select = &v1alpha1.SelectRules{TieBreaker: name} }
}

func records(mode v1alpha1.RecordMode) func(*v1alpha1.SchedulingPolicySpec) {
	return func(s *v1alpha1.SchedulingPolicySpec) {
		s.Decisions = &v1alpha1.DecisionRules{Record: mode, Events: true}
	}
}

// used is how many nodes pods are on, and the most on one.
func used(pods []corev1.Pod) (nodes, most int) {
	on := testenv.NodesOf(pods)
	for _, n := range on {
		most = max(most, n)
	}
	return len(on), most
}
