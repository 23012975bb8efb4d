// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/hack/cluster"
	"berth.dev/berth/internal/mix/split"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/testenv"
)

// What ends the process of one kind of object leaves the others: they share nothing, and none reads the objects of another.
func TestWhatEndsOneProcessLeavesTheOthers(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	since := time.Now()
	installed(w, "records.enabled=true", "environments.enabled=true")
	w.RunScheduler(cluster.ProgramOptions{Binary: schedulerBinary(w), ConfigFile: savedConfig(w)})
	running := features(w)
	w.Create(builders.CapacityMix("web", 70, 2), builders.Deployment("web", 10))
	w.RequireExact("web", split.New(70, 2), 10)
	percent := int32(70)
	var products []client.Object
	works := []func(){
		func() {
			percent -= 10
			w.ChangeMix("web", builders.SpotPercent(percent))
			w.WaitExact("web", split.New(percent, 2), 10, testenv.SettleTimeout)
		},
		func() {
			r := builders.DeploymentRecord(fmt.Sprint("cart-", percent), "add")
			w.Create(r)
			products = append(products, r)
			testenv.WaitFor(w, r.Name, "it is deployed", func(r *v1alpha1.DeploymentRecord) bool { return r.Status.Phase == v1alpha1.PhaseAvailable })
		},
		func() {
			_, e := sample()
			e.Name = fmt.Sprint("shop-", percent)
			w.Create(e)
			products = append(products, e)
			testenv.WaitFor(w, e.Name, "it runs", func(e *v1alpha1.Environment) bool { return e.Status.Phase == v1alpha1.EnvironmentRunning })
		},
	}
	for ended, p := range parts {
		testenv.End(running[ended], true)
		for i, work := range works {
			if i != ended {
				work()
			}
		}
		for i, other := range running {
			runs, log := testenv.Runs(other)
			assert.Equal(t, i != ended, runs, "%s after the end of %s: %s", parts[i].name, p.name, log)
		}
		w.DropLease(namespace, p.name)
		running[ended] = w.NamedController(p.name, testenv.Impatient, p.configure)
		works[ended]()
	}
	end(w, products...)
	requireNothingRefused(w, since)
	foreign := map[string][]string{
		cluster.BerthControllerUser: {"deploymentrecords", "deploymenttemplates", "environments", "databasebackups", "secrets"},
		cluster.BerthRecordsUser:    {"environments", "databasebackups", "schedulingpolicies", "pods", "secrets"},
	}
	for user, resources := range foreign {
		for _, resource := range resources {
			assert.Empty(t, w.AuditAll(func(r testenv.Request) bool {
				return r.User == user && r.At.After(since) && strings.HasPrefix(r.Resource, resource)
			}), "requests of %s for %s", user, resource)
		}
	}
}

// With singleProcess, berth-controller has the permissions of all, and the policies of all hold for it.
func TestOneProcessHasTheRightsOfAll(t *testing.T) {
	w := testenv.New(t, testenv.Roomy()...)
	w.StartStock()
	since := time.Now()
	installed(w, "services.enabled=true", "records.enabled=true", "environments.enabled=true", "placeholders.enabled=true", "webhook.enabled=true",
		"singleProcess=true")
	w.RunScheduler(cluster.ProgramOptions{Binary: schedulerBinary(w), ConfigFile: savedConfig(w)})
	w.WaitLeads(w.StartControllerWith(
		cluster.ProgramOptions{Name: "berth-controller", User: cluster.BerthControllerUser}, testenv.Impatient, func(c *controller.Configuration) {
			c.Controllers = []string{"*", controller.ControllerRecords, controller.ControllerEnvironments}
		}))
	moved(w)
	r, e := sample()
	w.Create(r, e)
	e = deployed(w, r, e)
	for _, p := range w.Pods(client.InNamespace(e.Status.Namespace)) { // that end late by themselves
		testenv.Patch(w, &p, endsLate)
	}
	testenv.Patch(w, e, func(e *v1alpha1.Environment) { e.Spec.RunPolicy, e.Spec.ForceStop = v1alpha1.RunPolicyStopped, true })
	testenv.WaitFor(w, e.Name, "it stops", func(e *v1alpha1.Environment) bool { return e.Status.Phase == v1alpha1.EnvironmentStopped })
	end(w, e, r)
	requireNothingRefused(w, since)
	assert.False(t, may(w, cluster.BerthRecordsUser, "default", "create apps/deployments"), "no one runs as this account")
	assert.False(t, may(w, cluster.BerthEnvironmentsUser, "default", "get /secrets"), "no one runs as this account")
}
