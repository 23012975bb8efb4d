// SPDX-License-Identifier: Apache-2.0

package records

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/cli/command"
	"berth.dev/berth/internal/cli/printers"
	"berth.dev/berth/internal/cli/show"
	"berth.dev/berth/internal/mix/overview"
	"berth.dev/berth/internal/records/nfr"
	"berth.dev/berth/internal/records/render"
	"berth.dev/berth/test/clitest"
)

// cart is a record with a function that is well, one that waits, one that runs
// in the ODGM, and the ODGM.
func cart() *v1alpha1.DeploymentRecord {
	r := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "cart", Generation: 2, CreationTimestamp: clitest.Ago(3 * time.Hour)}}
	r.Spec.DeploymentUnit.ID, r.Spec.DeploymentUnit.ClassKey, r.Spec.TargetEnvironment = "Shop/Cart", "shop.Cart", "cloud-1"
	r.Spec.Enforcement = &v1alpha1.NFREnforcement{Mode: v1alpha1.EnforcementEnforce}
	for _, key := range []string{"add", "remove", "count"} {
		r.Spec.DeploymentUnit.Functions = append(r.Spec.DeploymentUnit.Functions, v1alpha1.FunctionSpec{FunctionKey: key})
	}
	s := &r.Status
	s.ObservedGeneration, s.Phase, s.Message, s.Template = 2, v1alpha1.PhaseProgressing, "function remove: 1 of 2 replicas are ready", "edge"
	s.Functions = []v1alpha1.FunctionStatus{
		{FunctionKey: "add", Service: "cart-fn-0", URL: "http://cart-fn-0.shop.svc.cluster.local", Replicas: 3, ReadyReplicas: 3, Ready: true},
		{FunctionKey: "remove", Service: "cart-fn-1", URL: "http://cart-fn-1.shop.svc.cluster.local", Replicas: 2, ReadyReplicas: 1, Reason: "Waiting", Message: "1 of 2 replicas are ready"},
		{FunctionKey: "count", Reason: "RunsInODGM", Ready: true},
	}
	s.ODGM = &v1alpha1.ODGMStatus{Service: "cart-odgm-svc", Address: "cart-odgm-svc.shop:80", Ready: true}
	s.Conditions = []metav1.Condition{
		clitest.Condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, "Waiting", s.Message),
		clitest.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "NotReady", s.Message),
		clitest.Condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, "Configured", "deployed as configured"),
		clitest.Condition(v1alpha1.ConditionNFRObserved, metav1.ConditionTrue, "PrometheusQueryOK", "measured"),
	}
	s.ResourceRefs = []v1alpha1.ResourceRef{
		{APIVersion: "berth.dev/v1alpha1", Kind: "CapacityMix", Name: "cart-fn-0"},
		{APIVersion: "v1", Kind: "ConfigMap", Name: "cart-extra"},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart-fn-0"},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart-fn-1"},
		{APIVersion: "apps/v1", Kind: "Deployment", Name: "cart-odgm"},
		{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Name: "cart-fn-0"},
		{APIVersion: "v1", Kind: "Service", Name: "cart-fn-0"},
		{APIVersion: "v1", Kind: "Service", Name: "cart-fn-1"},
		{APIVersion: "v1", Kind: "Service", Name: "cart-odgm-svc"},
		{APIVersion: "berth.dev/v1alpha1", Kind: "ResourceLimit", Name: "cart"},
	}
	s.NFRCompliance = &v1alpha1.NFRCompliance{Overall: v1alpha1.ComplianceViolated, Throughput: v1alpha1.ComplianceMet, Latency: v1alpha1.ComplianceViolated, LastChecked: new(clitest.Ago(2 * time.Minute))}
	recommend := func(d v1alpha1.NFRDimension, target int64, basis string) v1alpha1.NFRRecommendation {
		return v1alpha1.NFRRecommendation{Component: "cart-fn-0", Dimension: d, Target: target, Basis: basis, ConfidencePercent: 60}
	}
	s.NFRRecommendations = []v1alpha1.NFRRecommendation{
		recommend(v1alpha1.DimensionMemory, 300<<20+1, "262144001 bytes used by all pods, times 1.2"), recommend(v1alpha1.DimensionReplicas, 4, "1750m used by all pods"),
		recommend(v1alpha1.DimensionCPU, 2275, "1750m used by all pods, times 1.3"),
	}
	s.NFRWindows = []v1alpha1.NFRWindow{{Component: "cart-fn-0", Dimension: v1alpha1.DimensionReplicas, Target: 4, Since: clitest.Ago(80 * time.Second), Seen: clitest.Ago(20 * time.Second)}}
	s.LastApplied = []v1alpha1.AppliedRecommendation{
		{NFRRecommendation: recommend(v1alpha1.DimensionReplicas, 4, "1700m used by all pods"), Value: 3, Time: clitest.Ago(10 * time.Minute)},
		{NFRRecommendation: v1alpha1.NFRRecommendation{Component: "cart-fn-1", Dimension: v1alpha1.DimensionReplicas, Target: 5, Basis: "2300m used by all pods"}, Value: 2, Time: clitest.Ago(2 * time.Hour)},
	}
	return r
}

// cartParts are those that a cluster has of the record; Service cart-fn-1 is gone, and
// Deployment cart-fn-9 is not in the status yet.
func cartParts(t *testing.T) *recordParts {
	t.Helper()
	rec := cart()
	s := &clitest.Shop{}
	s.Node("s1", "spot")
	s.Node("o1", "on-demand")
	s.Node("x", "")
	labels := func(function string) map[string]string {
		m := map[string]string{v1alpha1.OwnerLabel: "cart", v1alpha1.ComponentLabel: render.ComponentODGM}
		if function != "" {
			m[v1alpha1.ComponentLabel], m[v1alpha1.FunctionLabel] = render.ComponentFunction, render.Hash(function)
		}
		return m
	}
	pod := func(name, function, node string) {
		p := s.Pod("cart", name, node)
		p.Labels = labels(function)
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("200m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
		}}}}
	}
	pod("a-1", "add", "s1")
	pod("a-2", "add", "o1")
	pod("a-3", "add", "o1")
	pod("r-1", "remove", "x")
	pod("r-2", "remove", "")
	pod("g-1", "", "o1")
	s.Pod("other", "other", "s1").Labels = map[string]string{v1alpha1.OwnerLabel: "another", v1alpha1.ComponentLabel: render.ComponentFunction, v1alpha1.FunctionLabel: render.Hash("add")}
	p := &recordParts{rec: rec, cluster: s.Cluster(t), objects: map[objectKey]client.Object{}, read: map[schema.GroupKind]bool{}}
	keep := func(kind schema.GroupVersionKind, name, function string, o client.Object) {
		o.SetName(name)
		if o.GetLabels() == nil && kind != kindLimit {
			o.SetLabels(labels(function))
		}
		p.read[kind.GroupKind()] = true
		p.objects[objectKey{kind.GroupKind(), name}] = o
	}
	deploy := func(name, function string, wanted, ready int32) {
		d := &appsv1.Deployment{}
		d.Spec.Replicas, d.Status.ReadyReplicas = &wanted, ready
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry.example/" + name + ":1"}}
		keep(kindDeployment, name, function, d)
	}
	serve := func(name, function string) {
		o := &corev1.Service{}
		o.Spec.Ports = []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
		keep(kindService, name, function, o)
	}
	m := &v1alpha1.CapacityMix{}
	m.Spec.SpotPercent, m.Spec.MinOnDemand = 24, 2
	keep(kindMix, "cart-fn-0", "add", m)
	l := &v1alpha1.ResourceLimit{}
	l.Spec.CPU, l.Spec.MemoryLimit = new(resource.MustParse("200m")), new(resource.MustParse("256Mi"))
	keep(kindLimit, "cart", "", l)
	deploy("cart-fn-0", "add", 3, 3)
	deploy("cart-fn-1", "remove", 2, 1)
	deploy("cart-fn-9", "removed", 1, 0)
	deploy("cart-odgm", "", 1, 1)
	serve("cart-fn-0", "add")
	serve("cart-odgm-svc", "")
	h := &autoscalingv2.HorizontalPodAutoscaler{}
	h.Spec.MinReplicas, h.Spec.MaxReplicas, h.Status.DesiredReplicas = new(int32(2)), 20, 3
	keep(kindHPA, "cart-fn-0", "add", h)
	return p
}

func TestRecordsAreListed(t *testing.T) {
	fresh := v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "back", Name: "new", Generation: 1, CreationTimestamp: clitest.Ago(time.Minute)}}
	old := *cart()
	old.Name, old.Generation, old.DeletionTimestamp = "old", 3, new(clitest.Ago(time.Second))
	old.Spec.DeploymentUnit.Functions = old.Spec.DeploymentUnit.Functions[1:] // "add" is not requested any more
	list := []*v1alpha1.DeploymentRecord{cart(), &old, &fresh}
	clitest.Goldens(t, "records.stderr", map[string]string{
		"records.txt": printers.Text, "records-wide.txt": printers.Wide, "records.json": printers.JSON, "records.names": printers.Name,
	}, func(o *command.Options) error { return recordKind.Show(o, list, "") })
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error { return recordKind.Show(o, nil, "shop") })
	assert.Empty(t, out)
	assert.Equal(t, "No records found in namespace shop.\n", errOut)
}

func TestARecordIsShownWithItsTree(t *testing.T) {
	clitest.Goldens(t, "", map[string]string{"record.txt": printers.Text, "record.json": printers.JSON, "record.yaml": printers.YAML},
		func(o *command.Options) error { return showRecord(o, detailOf(cartParts(t))) })
}

// What may not be read is not called missing, and is shown by its name.
func TestARecordIsShownWithoutTheRightToReadItsObjects(t *testing.T) {
	p := cartParts(t)
	p.objects, p.read = map[objectKey]client.Object{}, map[schema.GroupKind]bool{}
	show := func(o *command.Options) error { return showRecord(o, detailOf(p)) }
	clitest.Goldens(t, "", map[string]string{"record-unread.txt": printers.Text}, show)

	p = cartParts(t)
	p.cluster.Problems = []overview.Problem{{Resource: "pods"}}
	out, _ := clitest.Printed(t, printers.Text, show)
	assert.Contains(t, out, "<unknown>")
	assert.NotContains(t, out, "1/2         0", "pods that could not be read are not counted")
}

func TestTheSizeOfARecordIsForAllFunctions(t *testing.T) {
	p := cartParts(t)
	p.rec.Status.Functions[0].Service = "cart" // as that of a record with one function, and of its size
	assert.Equal(t, component{function: "add"}, p.parent(kindDeployment.GroupKind(), "cart", nil))
	assert.Equal(t, component{}, p.parent(kindLimit.GroupKind(), "cart", nil))
}

// An object with the label that another record controls is not shown.
func TestOnlyObjectsOfTheRecordAreKept(t *testing.T) {
	p := &recordParts{rec: cart(), objects: map[objectKey]client.Object{}, read: map[schema.GroupKind]bool{}}
	mine := metav1.OwnerReference{Name: "cart", UID: "cart", Controller: new(true)}
	list := &corev1.ServiceList{Items: []corev1.Service{
		{ObjectMeta: metav1.ObjectMeta{Name: "mine", OwnerReferences: []metav1.OwnerReference{mine}}}, {ObjectMeta: metav1.ObjectMeta{Name: "other"}},
	}}
	p.keep(kindService.GroupKind(), list)
	assert.Len(t, p.objects, 1)
	assert.Contains(t, p.objects, objectKey{kindService.GroupKind(), "mine"})
	assert.True(t, p.read[kindService.GroupKind()])
}

func TestRecommendationsAreShownWithTheCurrentValues(t *testing.T) {
	p := cartParts(t)
	show := func(o *command.Options) error {
		return showRecommendations(o, recommendationsOf(p, nfr.DefaultSettings, clitest.Now))
	}
	clitest.Goldens(t, "", map[string]string{"recommendations.txt": printers.Text, "recommendations.json": printers.JSON}, show)
	p.rec.Status.NFRRecommendations, p.rec.Status.NFRWindows, p.rec.Status.LastApplied, p.rec.Status.NFRCompliance = nil, nil, nil, nil
	p.rec.Spec.Enforcement = nil
	p.rec.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionNFRObserved, Status: metav1.ConditionFalse, Reason: "PrometheusUnreachable", Message: "no answer"}}
	out, _ := clitest.Printed(t, printers.Text, show)
	assert.Equal(t, "DeploymentRecord shop/cart has enforcement Observe: nothing is applied.\n"+
		"The last measurement failed: PrometheusUnreachable: no answer.\nNothing is recommended, and nothing was applied.\n", out)
}

func TestAWindowShowsItsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		since, seen time.Duration
		want        string
	}{
		"begun":                 {time.Second, time.Second, "4 for 1s, applied in 2m59s"},
		"nearly":                {179 * time.Second, 10 * time.Second, "4 for 2m59s, applied in 1s"},
		"over":                  {180 * time.Second, 10 * time.Second, "4 for 3m, applied at the next measurement"},
		"as old as it may be":   {170 * time.Second, 150 * time.Second, "4 for 2m50s, applied in 10s"},
		"not measured any more": {200 * time.Second, 151 * time.Second, "4, not confirmed for 2m31s: starts again"},
	} {
		t.Run(name, func(t *testing.T) {
			p := cartParts(t)
			p.rec.Status.NFRWindows[0].Since, p.rec.Status.NFRWindows[0].Seen = clitest.Ago(tc.since), clitest.Ago(tc.seen)
			r := recommendationsOf(p, nfr.DefaultSettings, clitest.Now).Recommendations[0]
			assert.Equal(t, tc.want, r.Window.text(r.Dimension, clitest.Now))
		})
	}
}

func TestHistoryIsMergedByTime(t *testing.T) {
	event := func(reason, kind, message string, before time.Duration) corev1.Event {
		return corev1.Event{Reason: reason, Type: kind, Message: message, FirstTimestamp: clitest.Ago(before), LastTimestamp: clitest.Ago(before), Count: 1}
	}
	again := event("Degraded", "Warning", "ImageMissing: no image\nat all", 30*time.Minute)
	again.FirstTimestamp, again.Count = clitest.Ago(time.Hour), 5
	events := []corev1.Event{
		event("Available", "Normal", "Available", time.Minute), again, event("Applied", "Normal", "applied 9 objects, 9 of them new", 3*time.Hour),
		event(v1alpha1.EventReasonNFRApplied, "Normal", "replicas of Deployment cart-fn-0 from 2 to 3, recommended 4: 1700m used by all pods", 10*time.Minute+time.Second),
		event(v1alpha1.EventReasonNFRApplied, "Normal", "replicas of Deployment cart-fn-1 from 1 to 2, recommended 5: 2400m used by all pods", 20*time.Minute),
		event(v1alpha1.EventReasonNFRApplied, "Normal", "replicas of Deployment cart-fn-0 from 1 to 2, recommended 4: 1600m used by all pods", 2*time.Hour),
	}
	clitest.Goldens(t, "", map[string]string{"history.txt": printers.Text, "history.json": printers.JSON},
		func(o *command.Options) error { return show.History(o, overview.RecordHistory(cart(), events)) })
	out, errOut := clitest.Printed(t, printers.Text, func(o *command.Options) error {
		return show.History(o, &overview.History{Namespace: "shop", Name: "cart"})
	})
	assert.Empty(t, out)
	assert.Contains(t, errOut, "No events found for DeploymentRecord")
}
