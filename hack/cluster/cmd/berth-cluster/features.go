// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"strings"

	"berth.dev/berth/hack/cluster"
)

// parseFeatures reads a list of features, which may be separated by commas or spaces.
func parseFeatures(text string) (cluster.Features, error) {
	if strings.TrimSpace(text) == "none" {
		return nil, nil
	}
	chosen, unknown := cluster.Choose(cluster.AllFeatures(), text)
	if unknown != "" {
		return nil, fmt.Errorf("--features has %q: it must be a list of %s, or none", unknown, strings.Join(cluster.AllFeatures(), ", "))
	}
	return chosen, nil
}

// documented are the addresses that the documentation has.
var documented = cluster.ServiceAddresses{Berth: "127.0.0.1:9444", Environments: "127.0.0.1:9445"}

// free returns the addresses, with free ones in the place of those that another program has, such as the services of another clone.
func free(ctx context.Context, a cluster.ServiceAddresses) (cluster.ServiceAddresses, error) {
	for _, address := range []*string{&a.Berth, &a.Environments} {
		if *address == "" {
			continue
		}
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
		if err == nil {
			_ = listener.Close()
			continue
		}
		if *address, err = cluster.FreeAddress(); err != nil {
			return a, fmt.Errorf("find a free address for the services of Berth: %w", err)
		}
	}
	return a, nil
}

// hintServices shows how to call the services.
func (l local) hintServices(a cluster.ServiceAddresses) {
	var urls string
	if a.Berth != "" {
		l.say("Services of limits and records (gRPC and REST): %s", a.Berth)
		urls += " --server-url http://" + a.Berth
	}
	if a.Environments != "" {
		l.say("Service of environments (gRPC): %s", a.Environments)
		urls += " --environments-server-url http://" + a.Environments
	}
	if urls != "" {
		l.say(`
Call them with a token: kubectl create token client
Or without one, through a proxy on 127.0.0.1:50051:
  kubectl berth proxy --service-account client%s`, urls)
	}
}
