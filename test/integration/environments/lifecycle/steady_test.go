// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	networkingv1 "k8s.io/api/networking/v1"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/test/testenv"
)

// An environment that is as it should be costs no write, by whichever controller looks.
func TestWhatIsAsAskedIsNotWrittenAgain(t *testing.T) {
	reached := func(c *controller.Configuration) {
		c.Environments.OutsideNetworks = []string{"10.1.0.0/16", "2001:db8::/32"}
	}
	s := start(t, reached)
	e := environment("shop")
	e.Spec.Network = &v1alpha1.EnvironmentNetwork{Isolated: true}
	e.Spec.Stack.Frontend.Domains, e.Spec.Stack.Frontend.TLSEnabled = []string{"shop.example.com"}, true
	e.Spec.Stack.Database.PersistentStorage = true
	e.Spec.Stack.Backend.Replicas = new(int32(3))
	e.Spec.Stack.Backend.Container.HealthCheck = &v1alpha1.EnvironmentHealthCheck{Command: []string{"true"}, StartPeriodSeconds: 10}
	s.Create(e)
	e = s.comes("shop", v1alpha1.EnvironmentRunning)
	assert.Len(t, in(s, e, "frontend-outside", &networkingv1.NetworkPolicy{}).Spec.Ingress[0].From, 2)
	writes := func() (list []string) {
		for _, r := range s.AuditAll(func(r testenv.Request) bool {
			return r.Write() && r.User == cluster.BerthEnvironmentsUser && (r.Namespace == e.Status.Namespace || r.Namespace == s.Namespace) && r.Resource != "events"
		}) {
			list = append(list, fmt.Sprintf("%s %s %s", r.Verb, r.Resource, r.Name))
		}
		return list
	}
	quiet, since := writes(), time.Now()
	s.Eventually("it is quiet", func() (bool, string) { // the status of a ResourceLimit may come a second later
		before := quiet
		if quiet = writes(); len(quiet) > len(before) {
			since = time.Now()
		}
		return len(quiet) > 0 && time.Since(since) > testenv.Short, strings.Join(quiet[len(before):], ", ")
	})
	for i := range 3 {
		s.change("shop", func(e *v1alpha1.Environment) { e.Annotations = map[string]string{"look": fmt.Sprint(i)} })
	}
	testenv.End(s.process, false)
	s.run(reached)
	last := environment("last")
	last.Namespace = s.Namespace
	last.Spec.Stack = v1alpha1.ApplicationStack{Frontend: stack().Frontend}
	s.Create(last)
	s.comes("last", v1alpha1.EnvironmentRunning)
	after := slices.DeleteFunc(writes()[len(quiet):], func(w string) bool {
		return strings.Contains(w, " last") || strings.Contains(w, "frontend") && strings.Contains(w, "env-last")
	})
	assert.Empty(t, after)
	s.release()
}
