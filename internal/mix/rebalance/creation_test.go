// SPDX-License-Identifier: Apache-2.0

package rebalance

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func amounts(of map[corev1.ResourceName]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, q := range of {
		list[name] = resource.MustParse(q)
	}
	return list
}

type amount = map[corev1.ResourceName]string

func quota(hard, used amount, change ...func(*corev1.ResourceQuotaSpec)) []corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
	q.Spec.Hard, q.Status.Used = amounts(hard), amounts(used)
	for _, c := range change {
		c(&q.Spec)
	}
	return []corev1.ResourceQuota{q}
}

func scoped(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuotaSpec) {
	return func(s *corev1.ResourceQuotaSpec) { s.Scopes = scopes }
}

func classes(op corev1.ScopeSelectorOperator, values ...string) func(*corev1.ResourceQuotaSpec) {
	return func(s *corev1.ResourceQuotaSpec) {
		s.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values}}}
	}
}

func limitRange(i corev1.LimitRangeItem) []corev1.LimitRange {
	return []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{i}}}}
}

func creatablePod(requests, limits amount) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}}
	return p
}

func TestCreatable(t *testing.T) {
	over := func(name corev1.ResourceName) []corev1.ResourceQuota {
		return quota(amount{name: "3"}, amount{name: "4"})
	}
	pod := creatablePod(amount{"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}, amount{"cpu": "2", "memory": "1Gi"})
	pod.Spec.PriorityClassName = "high"
	deadline := pod.DeepCopy()
	deadline.Spec.ActiveDeadlineSeconds = new(int64(5))
	best := creatablePod(nil, nil)
	crossing := pod.DeepCopy()
	crossing.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"x"}}}}}}
	defaulted := pod.DeepCopy()
	defaulted.Annotations = map[string]string{limitRangerAnnotation: "LimitRanger plugin set: cpu request for container c"}
	exceeded := func(scopes ...corev1.ResourceQuotaScope) []corev1.ResourceQuota {
		return quota(amount{"pods": "3"}, amount{"pods": "4"}, scoped(scopes...))
	}
	container := func(i corev1.LimitRangeItem) []corev1.LimitRange {
		i.Type = corev1.LimitTypeContainer
		return limitRange(i)
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		quotas []corev1.ResourceQuota
		ranges []corev1.LimitRange
		want   *Reason
	}{
		"no bounds":                          {pod: pod},
		"a quota that is used up":            {pod: pod, quotas: quota(amount{"pods": "4", "cpu": "4"}, amount{"pods": "4", "cpu": "4"})},
		"a quota that nobody has counted":    {pod: pod, quotas: quota(amount{"pods": "0"}, nil)},
		"more pods than allowed":             {pod: pod, quotas: over("pods"), want: ReasonQuota},
		"more objects than allowed":          {pod: pod, quotas: over("count/pods"), want: ReasonQuota},
		"more cpu than allowed":              {pod: pod, quotas: over("cpu"), want: ReasonQuota},
		"more requests than allowed":         {pod: pod, quotas: over("requests.memory"), want: ReasonQuota},
		"more limits than allowed":           {pod: pod, quotas: over("limits.cpu"), want: ReasonQuota},
		"more devices than allowed":          {pod: pod, quotas: over("requests.example.com/gpu"), want: ReasonQuota},
		"more cpu, and it takes none":        {pod: best, quotas: over("cpu")},
		"more services":                      {pod: pod, quotas: over("services")},
		"more of another device":             {pod: pod, quotas: over("requests.example.com/fpga")},
		"a scope that it is in":              {pod: pod, quotas: exceeded(corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort), want: ReasonQuota},
		"a scope that it is not in":          {pod: pod, quotas: exceeded(corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort)},
		"it has a deadline":                  {pod: deadline, quotas: exceeded(corev1.ResourceQuotaScopeTerminating), want: ReasonQuota},
		"it has none":                        {pod: pod, quotas: exceeded(corev1.ResourceQuotaScopeTerminating)},
		"best effort":                        {pod: best, quotas: exceeded(corev1.ResourceQuotaScopeBestEffort), want: ReasonQuota},
		"affinity to other namespaces":       {pod: crossing, quotas: exceeded(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), want: ReasonQuota},
		"no affinity to other namespaces":    {pod: pod, quotas: exceeded(corev1.ResourceQuotaScopeCrossNamespacePodAffinity)},
		"a scope of claims":                  {pod: pod, quotas: exceeded(corev1.ResourceQuotaScopeVolumeAttributesClass)},
		"its class":                          {pod: pod, quotas: quota(amount{"pods": "0"}, amount{"pods": "1"}, classes(corev1.ScopeSelectorOpIn, "high")), want: ReasonQuota},
		"another class":                      {pod: pod, quotas: quota(amount{"pods": "0"}, amount{"pods": "1"}, classes(corev1.ScopeSelectorOpIn, "low"))},
		"not its class":                      {pod: pod, quotas: quota(amount{"pods": "0"}, amount{"pods": "1"}, classes(corev1.ScopeSelectorOpNotIn, "high"))},
		"any class":                          {pod: pod, quotas: quota(amount{"pods": "0"}, amount{"pods": "1"}, classes(corev1.ScopeSelectorOpExists)), want: ReasonQuota},
		"no class":                           {pod: pod, quotas: quota(amount{"pods": "0"}, amount{"pods": "1"}, classes(corev1.ScopeSelectorOpDoesNotExist))},
		"no limit range of pods":             {pod: pod, ranges: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: amounts(amount{"cpu": "0"})})},
		"a container within":                 {pod: pod, ranges: container(corev1.LimitRangeItem{Min: amounts(amount{"cpu": "1"}), Max: amounts(amount{"cpu": "2"}), MaxLimitRequestRatio: amounts(amount{"cpu": "2"})})},
		"a container that is too large":      {pod: pod, ranges: container(corev1.LimitRangeItem{Max: amounts(amount{"cpu": "1500m"})}), want: ReasonLimitRange},
		"a container that is too small":      {pod: pod, ranges: container(corev1.LimitRangeItem{Min: amounts(amount{"cpu": "1500m"})}), want: ReasonLimitRange},
		"a container that is too elastic":    {pod: pod, ranges: container(corev1.LimitRangeItem{MaxLimitRequestRatio: amounts(amount{"cpu": "1500m"})}), want: ReasonLimitRange},
		"a container without a limit":        {pod: best, ranges: container(corev1.LimitRangeItem{Max: amounts(amount{"cpu": "1"})}), want: ReasonLimitRange},
		"a container that gets the defaults": {pod: best, ranges: container(corev1.LimitRangeItem{Max: amounts(amount{"cpu": "1"}), Default: amounts(amount{"cpu": "1"}), DefaultRequest: amounts(amount{"cpu": "1"})})},
		"one that got older defaults":        {pod: defaulted, ranges: container(corev1.LimitRangeItem{Max: amounts(amount{"cpu": "1500m"})})},
		"a pod that is too large":            {pod: pod, ranges: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts(amount{"memory": "1Mi"})}), want: ReasonLimitRange},
		"a pod within":                       {pod: pod, ranges: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: amounts(amount{"memory": "1Gi"})})},
	} {
		t.Run(name, func(t *testing.T) {
			v := (&Bounds{tc.quotas, tc.ranges}).Creatable(tc.pod, tc.pod)
			assert.Equal(t, tc.want, v.Reason, v.Message)
		})
	}
	message := (&Bounds{Quotas: over("pods")}).Creatable(pod, pod).Message
	assert.Equal(t, `ResourceQuota "q" allows 3 of pods, and 4 is used: a replacement of pod p would be refused`, message)
	message = (&Bounds{Ranges: limitRange(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Max: amounts(amount{"cpu": "1500m"})})}).Creatable(pod, pod).Message
	assert.Equal(t, `LimitRange "l" forbids a pod like p: container c: its limit of cpu is 2, and the maximum is 1500m`, message)
}

// A template may have grown since the replica was created.
func TestAQuotaCountsTheReplacementInThePlaceOfItsReplica(t *testing.T) {
	old, large := &corev1.Pod{}, &corev1.Pod{}
	old.Name = "web-1"
	old.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts(amount{"cpu": "1"})}}}
	large.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: amounts(amount{"cpu": "3"})}}}
	quota := func(hard, used string) []corev1.ResourceQuota {
		return []corev1.ResourceQuota{{
			ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amounts(amount{"requests.cpu": hard})},
			Status: corev1.ResourceQuotaStatus{Used: amounts(amount{"requests.cpu": used})},
		}}
	}
	for name, c := range map[string]struct {
		next       *corev1.Pod
		hard, used string
		allowed    bool
		crowded    string
	}{
		"the same, in place":        {next: old, hard: "4", used: "4", allowed: true, crowded: "q"},
		"the same, beside":          {next: old, hard: "5", used: "4", allowed: true},
		"larger, in place":          {next: large, hard: "6", used: "4", allowed: true, crowded: "q"},
		"larger than the place":     {next: large, hard: "5", used: "4", crowded: "q"},
		"more is used than allowed": {next: old, hard: "3", used: "4", crowded: "q"},
	} {
		t.Run(name, func(t *testing.T) {
			want := ReasonQuota
			if c.allowed {
				want = nil
			}
			b := Bounds{Quotas: quota(c.hard, c.used)}
			v := b.Creatable(c.next, old)
			assert.Equal(t, want, v.Reason, v.Message)
			assert.Equal(t, c.crowded, b.Crowded(c.next))
		})
	}
}

// Each pod of a unit may be larger than before, and all of them may be too large together.
func TestAQuotaCountsTheReplacementsOfAUnitTogether(t *testing.T) {
	sized := func(cpu string) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: amounts(amount{"cpu": cpu})},
		}}}}
	}
	b := Bounds{Quotas: []corev1.ResourceQuota{{
		Spec:   corev1.ResourceQuotaSpec{Hard: amounts(amount{"requests.cpu": "8", "pods": "2"})},
		Status: corev1.ResourceQuotaStatus{Used: amounts(amount{"requests.cpu": "4", "pods": "2"})},
	}}}
	shared := b.Quotas[0].Status.Used
	for i, want := range []*Reason{nil, nil, ReasonQuota} { // 4, 6, and 8 CPUs would be used, and then 10
		assert.Equal(t, want, b.Creatable(sized("4"), sized("2")).Reason, "pod %d", i)
		b.Replace(sized("4"), sized("2"))
	}
	assert.Equal(t, amounts(amount{"requests.cpu": "4", "pods": "2"}), shared, "what was read is not changed")
}
