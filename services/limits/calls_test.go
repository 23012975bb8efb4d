// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// anybody may do everything.
type anybody struct{}

func (anybody) Authorize(context.Context, server.Access) error { return nil }

// damagedList has a limit as another version of the CRD may have accepted it, between two others.
const damagedList = `{"apiVersion":"berth.dev/v1alpha1","kind":"ResourceLimitList","metadata":{},"items":[
{"apiVersion":"berth.dev/v1alpha1","kind":"ResourceLimit","metadata":{"name":"a","namespace":"ns"},"spec":{"cpu":1,"nodeSelector":{"disk":"ssd"}}},
{"apiVersion":"berth.dev/v1alpha1","kind":"ResourceLimit","metadata":{"name":"b","namespace":"ns","labels":{"team":"ml"}},
 "spec":{"cpu":"2","memory":true,"description":"d","nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":"none"},"nodeSelector":{"disk":"hdd"}},
 "status":{"podCount":"many","workloadCount":3}},
{"apiVersion":"berth.dev/v1alpha1","kind":"ResourceLimit","metadata":{"name":"c","namespace":"ns"},"spec":{"memory":"1Gi"}}]}`

// A limit of which something cannot be read is shown without it, with a warning, and the others as they are.
func TestADamagedLimitHidesNoOther(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(damagedList))
	}))
	defer api.Close()
	apiClient, err := uncached.New(&rest.Config{Host: api.URL}, fieldManager)
	require.NoError(t, err)
	c := &service{store: &store{apiClient}, access: anybody{}}
	found, _, err := c.store.list(t.Context(), "ns", labels.Everything(), "", 10)
	require.NoError(t, err)
	require.Len(t, found, 3)
	assert.Equal(t, []string{"spec.memory", "spec.nodeAffinity", "status.podCount"}, found[1].unreadable)
	assert.EqualValues(t, 3, found[1].Status.WorkloadCount)
	for _, form := range []form{formMap, formAny} {
		list, err := (&grpcAPI{service: c, form: form}).list(t.Context(), options{"ns", form}, &orchestratorv1.ListResourceLimitsRequest{})
		require.NoError(t, err)
		require.Len(t, list.GetData(), 3)
		assert.Equal(t, "1", list.GetData()[0].GetLimits().GetCpu())
		assert.Equal(t, "1Gi", list.GetData()[2].GetLimits().GetMemory())
		b := list.GetData()[1]
		assert.Equal(t, map[string]string{"team": "ml"}, b.GetLabels())
		assert.Equal(t, "d", b.GetDescription())
		assert.Equal(t, "2", b.GetLimits().GetCpu())
		assert.Empty(t, b.GetLimits().GetMemory())
		assert.Len(t, b.GetLimits().GetNodeSelector(), 1)
		assert.Nil(t, b.GetLimits().GetNodeAffinity())
	}
}

func TestAWarningNamesWhatIsLeftOut(t *testing.T) {
	objects := []*object{{}, {unreadable: []string{"spec.memory", "spec.cpu"}}}
	objects[1].Name = "b"
	for range namedLimits + 1 {
		objects = append(objects, &object{unreadable: []string{"status"}})
	}
	assert.Empty(t, warning(objects[:1]))
	assert.Equal(t, "fields that do not match the CRD of ResourceLimits are left out: b (spec.memory, spec.cpu)", warning(objects[:2]))
	assert.Regexp(t, ` \(status\) and 2 more$`, warning(objects))
}

// Without the CRD a limit is not reported as absent.
func TestALimitWhoseCRDIsMissing(t *testing.T) {
	api := httptest.NewServer(http.NotFoundHandler())
	defer api.Close()
	apiClient, err := uncached.New(&rest.Config{Host: api.URL}, fieldManager)
	require.NoError(t, err)
	c := &service{store: &store{apiClient}, access: anybody{}}
	_, err = c.read(t.Context(), "default", "small", "get")
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
	_, err = c.remove(t.Context(), "default", "small", false)
	assert.Equal(t, codes.Unavailable, server.AsError(err).Code, "%v", err)
}

func TestARefusalCountsWorkloadsOnlyWhereThereAreSome(t *testing.T) {
	pod := v1alpha1.WorkloadReference{Kind: "Pod", Namespace: "shop", Name: "a"}
	web := v1alpha1.WorkloadReference{Kind: "Deployment", Namespace: "shop", Name: "web"}
	for want, status := range map[string]v1alpha1.ResourceLimitStatus{
		"":                  {},
		"1 pod: Pod shop/a": {PodCount: 1, Workloads: []v1alpha1.WorkloadReference{pod}},
		"2 pods and 1 workload: Deployment shop/web, Pod shop/a": {
			PodCount: 2, WorkloadCount: 1, Workloads: []v1alpha1.WorkloadReference{web, pod},
		},
		"0 pods and 1 workload: Deployment shop/web": {WorkloadCount: 1, Workloads: []v1alpha1.WorkloadReference{web}},
	} {
		assert.Equal(t, want, usedBy(&status))
	}
}
