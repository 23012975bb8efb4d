// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"k8s.io/client-go/rest"

	"berth.dev/berth/services/server"
)

// Add has a server serve ResourceLimits of an API server. A gRPC call that names no namespace means the one given here.
func Add(s *server.Server, api *rest.Config, namespace string) error {
	store, err := newStore(api)
	if err != nil {
		return err
	}
	c := &core{store: store, access: s}
	for _, d := range descriptions() {
		s.Register(d, &front{core: c, namespace: namespace})
	}
	(&web{c}).routes(s)
	return nil
}
