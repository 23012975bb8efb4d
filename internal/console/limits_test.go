// SPDX-License-Identifier: Apache-2.0

package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/mix/overview"
)

func limit(namespace, name string) *v1alpha1.ResourceLimit {
	l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	l.Spec.CPU, l.Spec.MemoryLimit = new(resource.MustParse("500m")), new(resource.MustParse("1Gi"))
	return l
}

// show is a page of limits.
func show(t *testing.T, path string, limits ...*v1alpha1.ResourceLimit) (status int, page string) {
	t.Helper()
	_, c := start(t, overviewOf())
	at, err := url.Parse(path)
	require.NoError(t, err)
	p, err := pageOf(at, &state{Reading: &overview.Reading{Overview: overviewOf(), Limits: limits}, rows: &sync.Map{}})
	if err != nil {
		return http.StatusNotFound, err.Error()
	}
	w := httptest.NewRecorder()
	c.write(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody), http.StatusOK, p, at)
	return w.Code, w.Body.String()
}

func TestLimitsShowTheirSchedulingRules(t *testing.T) {
	gpu := limit("shop", "gpu")
	gpu.Spec.Description = "with a GPU"
	gpu.Spec.NodeSelector = map[string]string{"zone": "a", "disk": "ssd"}
	in := v1alpha1.NodeRequirement{Key: "gpu", Operator: "In", Values: []string{"a100", "h100"}}
	gpu.Spec.NodeAffinity = &v1alpha1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &v1alpha1.NodeTerms{NodeSelectorTerms: []v1alpha1.NodeTerm{
			{MatchExpressions: []v1alpha1.NodeRequirement{in, {Key: "old", Operator: "DoesNotExist"}}},
			{MatchFields: []v1alpha1.NodeFieldRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}},
		}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1alpha1.PreferredNodeTerm{{Weight: 30, Preference: v1alpha1.NodeTerm{MatchExpressions: []v1alpha1.NodeRequirement{in}}}},
	}
	gpu.Status.WorkloadCount, gpu.Status.PodCount = 1, 3
	gpu.Status.Workloads = []v1alpha1.WorkloadReference{{Kind: "Deployment", Namespace: "shop", Name: "train"}}
	gpu.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInUse, Status: metav1.ConditionTrue, Reason: "PodsFound"}}
	ended := limit("media", "small")
	ended.DeletionTimestamp = new(metav1.Now())

	_, page := show(t, "/limits", gpu, ended)
	rows := elements(t, page)["tr"]
	require.Len(t, rows, 3)
	assert.Contains(t, text(rows[1]), "No scheduling configuration", "sorted by namespace")
	assert.Contains(t, text(rows[1]), "Deleted")
	assert.Contains(t, text(rows[2]), "CPU 500m, Memory limit 1Gi")
	assert.Contains(t, page, `href="/limits/shop/gpu"`)

	status, page := show(t, "/limits/shop/gpu", gpu, ended)
	require.Equal(t, http.StatusOK, status)
	for _, want := range []string{
		"<li>disk=ssd</li><li>zone=a</li>", "<li>gpu In a100, h100 and old DoesNotExist</li><li>metadata.name In n1</li>",
		"<li>weight 30: gpu In a100, h100</li>", "1 workload, 3 pods", "<li>Deployment shop/train</li>", "True, PodsFound", "with a GPU",
	} {
		assert.Contains(t, page, want)
	}
	assert.NotContains(t, page, "No scheduling configuration")
	_, page = show(t, "/limits/media/small", gpu, ended)
	assert.Contains(t, page, "<p>No scheduling configuration</p>")
	status, page = show(t, "/limits/shop/other", gpu)
	assert.Equal(t, http.StatusNotFound, status)
	assert.Equal(t, "there is no ResourceLimit shop/other, or you may not read it", page)
}

func TestLimitsHavePages(t *testing.T) {
	var many []*v1alpha1.ResourceLimit
	for i := range 201 {
		many = append(many, limit("shop", fmt.Sprintf("l-%03d", i)))
	}
	_, page := show(t, "/limits?page=3", many...)
	assert.Len(t, elements(t, page)["tr"], 1+1)
	assert.Contains(t, page, `href="/limits?page=2"`)
}

func TestTextsOfLimitsAreInert(t *testing.T) {
	const evil = `<script>alert(1)</script>` + "\u202e\x1b[31m"
	l := limit("shop", evil)
	l.Spec.Description, l.Spec.NodeSelector = evil, map[string]string{evil: evil}
	l.Status.Workloads = []v1alpha1.WorkloadReference{{Kind: evil, Name: evil}}
	l.Status.Conditions = []metav1.Condition{{Type: evil, Reason: evil, Message: evil}}
	for _, path := range []string{"/limits", limitList.url(l)} {
		status, page := show(t, path, l)
		require.Equal(t, http.StatusOK, status)
		assert.Len(t, elements(t, page)["script"], 1)
		assert.NotContains(t, page, "\x1b")
		assert.NotContains(t, page, "\u202e")
	}
}
