// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/services/server"
)

// pollInterval is how often those who follow logs look for new containers.
const pollInterval = 3 * time.Second

// Options configure the service.
type Options struct {
	// Namespace has the environments of calls that name no namespace.
	Namespace string
	// TokenKey is what page tokens are signed with, the same in all replicas.
	TokenKey []byte
	// Exposure is that of environments that do not set it.
	Exposure v1alpha1.EnvironmentExposure
	// KubeletSummary has the status read what containers use of disk and network from the kubelets.
	KubeletSummary bool
	// Log gets a line for each call that changes an environment.
	Log logr.Logger
}

// Add has a server serve the Environments of an API server.
func Add(s *server.Server, api *rest.Config, o Options) error {
	c, err := newService(s, api, o)
	if err != nil {
		return err
	}
	s.Register(description(), &grpcAPI{service: c, namespace: o.Namespace})
	s.Register(backupsDescription(), &backups{service: c, namespace: o.Namespace})
	return nil
}

func newService(access server.Authorizer, api *rest.Config, o Options) (*service, error) {
	// With an empty key anybody could make a token.
	if len(o.TokenKey) == 0 {
		return nil, errors.New("the key of page tokens is empty")
	}
	store, err := newStore(api)
	if err != nil {
		return nil, err
	}
	return &service{
		store: store, access: access, log: o.Log, tokens: o.TokenKey, caller: server.Caller,
		exposure: o.Exposure, summary: o.KubeletSummary, now: time.Now, poll: pollInterval,
		lists: newSharedLists(pollInterval),
		logPool: server.NewPool("logs of containers that are read",
			server.NewLimit("logs", allLogs), server.NewLimit("logsPerCaller", callerLogs)),
	}, nil
}
