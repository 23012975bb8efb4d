// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"k8s.io/client-go/rest"

	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// Add has a server serve ResourceLimits of an API server. A gRPC call that names no namespace means the one given here.
func Add(s *server.Server, api *rest.Config, namespace string) error {
	c, err := uncached.New(api, fieldManager)
	if err != nil {
		return err
	}
	limits := &service{store: &store{c}, access: s}
	for name, form := range formsOf {
		s.Register(describe(name), &grpcAPI{service: limits, namespace: namespace, form: form})
	}
	(&web{limits}).routes(s)
	return nil
}
