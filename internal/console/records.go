// SPDX-License-Identifier: Apache-2.0

package console

import (
	"cmp"
	"fmt"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

// recordView is a DeploymentRecord as it is shown. All texts are inert.
type recordView struct {
	Namespace, Name, Class, DeploymentID, Environment, Template, Message string
	Phase                                                                badge
	// Ready is ready/all functions.
	Ready           string
	Functions       []functionView
	Objects         []string
	Compliance      []fact
	Recommendations []recommendationView
	Applied         []fact
	Conditions      []fact
}

// functionView is a function, or the ODGM.
type functionView struct {
	Name, Ready, URL, Reason, Message string
	IsReady                           bool
}

// recommendationView is what the last measurement recommends.
type recommendationView struct{ Component, Dimension, Target, Basis, Confidence string }

var recordList = listOf[*v1alpha1.DeploymentRecord]{
	id: "records", title: "Records", kind: "DeploymentRecord",
	noun: "deployment record", resource: overview.RecordsResource,
	of:   func(r *overview.Reading) []*v1alpha1.DeploymentRecord { return r.Records },
	view: func(r *v1alpha1.DeploymentRecord) any { return recordOf(r) },
}

func recordOf(r *v1alpha1.DeploymentRecord) *recordView {
	unit, s := &r.Spec.DeploymentUnit, &r.Status
	v := &recordView{
		Namespace: inert(r.Namespace), Name: inert(r.Name), Class: inert(unit.ClassKey), DeploymentID: inert(unit.ID),
		Environment: inert(r.Spec.TargetEnvironment), Template: inert(s.Template), Message: inert(s.Message),
		Phase: recordBadge(s.Phase), Conditions: conditionsOf(s.Conditions),
	}
	if v.Message == v.Phase.Word {
		v.Message = ""
	}
	ready := 0
	for i := range s.Functions {
		f := &s.Functions[i]
		if f.Ready {
			ready++
		}
		v.Functions = append(v.Functions, functionView{
			inert(f.FunctionKey), fmt.Sprintf("%d/%d", f.ReadyReplicas, f.Replicas), inert(f.URL), inert(f.Reason), inert(f.Message), f.Ready,
		})
	}
	v.Ready = fmt.Sprintf("%d/%d", ready, len(s.Functions))
	if s.ODGM != nil {
		v.Functions = append(v.Functions, functionView{Name: "ODGM", URL: inert(s.ODGM.Address), IsReady: s.ODGM.Ready})
	}
	for _, o := range s.ResourceRefs {
		v.Objects = append(v.Objects, inert(o.Kind+" "+o.Name))
	}
	if c := s.NFRCompliance; c != nil {
		v.Compliance = compliance(c)
	}
	for i := range s.NFRRecommendations {
		n := &s.NFRRecommendations[i]
		v.Recommendations = append(v.Recommendations, recommendationView{
			inert(n.Component), inert(string(n.Dimension)), n.Dimension.Format(n.Target), inert(n.Basis),
			fmt.Sprintf("%d %%", n.ConfidencePercent),
		})
	}
	for i := range s.LastApplied {
		a := &s.LastApplied[i]
		what := fmt.Sprintf("%s of %s is %s, recommended %s", a.Dimension, a.Component, a.Dimension.Format(a.Value), a.Dimension.Format(a.Target))
		v.Applied = append(v.Applied, fact{timeText(a.Time), inert(what)})
	}
	return v
}

func recordBadge(p v1alpha1.DeploymentPhase) badge {
	b := badge{Word: inert(string(cmp.Or(p, v1alpha1.PhasePending)))}
	switch p {
	case v1alpha1.PhaseAvailable:
		b.Class = "ok"
	case v1alpha1.PhaseDegraded:
		b.Class = "bad"
	}
	return b
}

func compliance(c *v1alpha1.NFRCompliance) (facts []fact) {
	for _, of := range []struct {
		name  string
		state v1alpha1.Compliance
	}{
		{"All requirements", c.Overall},
		{"Throughput", c.Throughput},
		{"Latency", c.Latency},
		{"Availability", c.Availability},
	} {
		if of.state != "" {
			facts = append(facts, fact{of.name, inert(string(of.state))})
		}
	}
	return facts
}
