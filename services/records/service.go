// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"

	"k8s.io/client-go/rest"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"berth.dev/berth/apis/v1alpha1"
	"berth.dev/berth/internal/kube/uncached"
	"berth.dev/berth/services/server"
)

// Options configure the services.
type Options struct {
	// Namespace has the records of calls that name no namespace.
	Namespace string
	// TemplateNamespace has the DeploymentTemplates that are for records of all namespaces.
	TemplateNamespace string
	// Version is Berth's.
	Version string
	// Nodes reads the nodes of the cluster. It may be a cache.
	Nodes ctrlclient.Reader
	// Preconditions returns why a spec that is about to be written cannot be deployed as things are now, nil if it
	// can. A *server.Error goes to the caller. Nil checks nothing.
	Preconditions func(ctx context.Context, spec *v1alpha1.DeploymentRecordSpec) error
}

// Add has a server serve the DeploymentRecords of an API server, and report its health and the cluster's.
func Add(s *server.Server, api *rest.Config, o Options) error {
	apiClient, err := uncached.New(api, fieldManager)
	if err != nil {
		return err
	}
	c := &service{client: apiClient, access: s, templates: o.TemplateNamespace, preconditions: o.Preconditions}
	for _, d := range descriptions() {
		s.Register(d, &grpcAPI{service: c, namespace: o.Namespace})
	}
	s.Register(crmDescription(), &crm{access: s, nodes: o.Nodes, version: o.Version})
	s.RegisterOpen(healthDescription(), &healthFront{s.Health()})
	return nil
}
