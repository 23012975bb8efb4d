// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/types/known/anypb"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/test/builders"
	"berth.dev/berth/test/servicetest"
	"berth.dev/berth/test/wire"
	"berth.dev/berth/test/wire/anyform"
)

const (
	// kept is how many limits there are to read, page how many a list has.
	kept, page = 500, 50
	// created is how many are created at most in a turn: the statuses of new ones are written five a second, and a turn waits for all.
	created = 500
)

func keptName(i int) string { return fmt.Sprintf("limit-%03d", i%kept) }

// operation is one thing that a caller does, in two ways.
type operation struct {
	name         string
	grpc, direct func(i int) error
	// most is how many are done in a turn without a pace; 0 for saturated.
	most int
}

// selector is the nodeSelector of every limit.
var selector = map[string]string{"disk": "ssd"}

func message() *anyform.ResourceLimit {
	return &anyform.ResourceLimit{
		Cpu: "500m", Memory: "1Gi", CpuLimit: new("2"), MemoryLimit: new("2Gi"),
		NodeSelector: &anypb.Any{TypeUrl: "kubernetes.io/NodeSelector", Value: []byte(`{"disk":"ssd"}`)},
	}
}

func object(namespace, name string) *v1alpha1.ResourceLimit {
	l := builders.ResourceLimit(name, builders.SizeCPU("500m", "2"), func(s *v1alpha1.ResourceLimitSpec) {
		s.Memory, s.MemoryLimit = new(resource.MustParse("1Gi")), new(resource.MustParse("2Gi"))
		s.NodeSelector = selector
	})
	l.Namespace = namespace
	return l
}

func (s *served) operations() []operation {
	c := anyform.NewResourceLimitServiceClient(wire.Conn{ClientConnInterface: s.conn})
	here, grown := s.in(s.Namespace), s.in(s.grown)
	var made atomic.Int64
	newName := func() string { return fmt.Sprintf("made-%d", made.Add(1)) }
	return []operation{
		{
			name: "create", most: created,
			grpc: func(int) error {
				r := &anyform.CreateResourceLimitRequest{Name: newName(), Limits: message()}
				return servicetest.Err(c.CreateResourceLimit(grown, r))
			},
			direct: func(int) error { return s.direct.Create(s.Ctx, object(s.grown, newName())) },
		},
		{
			name: "get",
			grpc: func(i int) error {
				return servicetest.Err(c.GetResourceLimit(here, &anyform.GetResourceLimitRequest{Name: keptName(i)}))
			},
			direct: func(i int) error {
				return s.direct.Get(s.Ctx, types.NamespacedName{Namespace: s.Namespace, Name: keptName(i)}, &v1alpha1.ResourceLimit{})
			},
		},
		{
			name: "list",
			grpc: func(int) error {
				r, err := c.ListResourceLimits(here, &anyform.ListResourceLimitsRequest{First: new(int32(page))})
				return fullPage(len(r.GetData()), err)
			},
			direct: func(int) error {
				var l v1alpha1.ResourceLimitList
				err := s.direct.List(s.Ctx, &l, client.InNamespace(s.Namespace), client.Limit(page))
				return fullPage(len(l.Items), err)
			},
		},
		{
			name: "update",
			grpc: func(i int) error {
				m := message()
				m.Cpu = cpu(made.Add(1))
				return servicetest.Err(c.UpdateResourceLimit(here, &anyform.UpdateResourceLimitRequest{Name: keptName(i), Limits: m}))
			},
			// As the service: whoever replaces a limit reads it first.
			direct: func(i int) error {
				return retry.RetryOnConflict(retry.DefaultRetry, func() error {
					l := &v1alpha1.ResourceLimit{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: keptName(i)}}
					if err := s.direct.Get(s.Ctx, client.ObjectKeyFromObject(l), l); err != nil {
						return err
					}
					l.Spec.CPU = new(resource.MustParse(cpu(made.Add(1))))
					return s.direct.Update(s.Ctx, l)
				})
			},
		},
	}
}

// cpu is another request than the last.
func cpu(n int64) string { return fmt.Sprintf("%dm", 500+n%1000) }

func fullPage(n int, err error) error {
	if err == nil && n != page {
		err = fmt.Errorf("%d limits on the page instead of %d", n, page)
	}
	return err
}
