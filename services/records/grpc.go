// SPDX-License-Identifier: Apache-2.0

package records

import (
	"context"
	"slices"

	"google.golang.org/grpc"

	tolerantv1 "berth.dev/berth/apis/proto/berth/oaas/v1"
	oaasalias "berth.dev/berth/apis/proto/oaas/alias"
	oaascommon "berth.dev/berth/apis/proto/oaas/common"
	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/services/server"
)

// grpcAPI is the gRPC side.
type grpcAPI struct {
	service *service
	// namespace is where records are unless a call names another.
	namespace string
}

// descriptions are those of the service under its two names. They are made by hand: some messages are not the published
// ones but the tolerant ones, which are the same on the wire.
func descriptions() []*grpc.ServiceDesc {
	methods := []grpc.MethodDesc{
		server.Unary("Deploy", namespaced((*grpcAPI).deploy)),
		server.Unary("GetDeploymentStatus", namespaced((*grpcAPI).status)),
		server.Unary("DeleteDeployment", namespaced((*grpcAPI).remove)),
		server.Unary("ListClassRuntimes", namespaced((*grpcAPI).list)),
		server.Unary("GetClassRuntime", namespaced((*grpcAPI).get)),
		// The names that these two had before. Of the published revisions that have them, some decode an OClassDeployment and
		// others a DeploymentUnit, and nothing in a call shows which.
		server.Unary("ListDeploymentRecords", namespaced((*grpcAPI).listRecords)),
		server.Unary("GetDeploymentRecord", namespaced((*grpcAPI).getRecord)),
	}
	return []*grpc.ServiceDesc{
		{
			ServiceName: oaasdeployment.DeploymentService_ServiceDesc.ServiceName, HandlerType: (*any)(nil), Methods: methods,
			Metadata: oaasdeployment.File_oaas_deployment_deployment_proto.Path(),
		},
		{
			ServiceName: oaasalias.DeploymentService_ServiceDesc.ServiceName, HandlerType: (*any)(nil), Methods: methods,
			Metadata: oaasalias.File_oaas_alias_alias_proto.Path(),
		},
	}
}

// namespaced returns a method as the server calls it, without the namespace of the call.
func namespaced[Req, Resp any](
	method func(f *grpcAPI, ctx context.Context, namespace string, req Req) (Resp, error),
) func(*grpcAPI, context.Context, Req) (Resp, error) {
	return func(f *grpcAPI, ctx context.Context, req Req) (resp Resp, err error) {
		namespace, err := server.Namespace(ctx, f.namespace)
		if err != nil {
			return resp, err
		}
		return method(f, ctx, namespace, req)
	}
}

func (f *grpcAPI) deploy(ctx context.Context, namespace string, req *tolerantv1.DeployRequest) (*oaasdeployment.DeployResponse, error) {
	u, err := fromWire(req.GetDeploymentUnit())
	if err != nil {
		return nil, err
	}
	r, err := f.service.deploy(ctx, namespace, u)
	if err != nil {
		return nil, server.Rename(err, wireField)
	}
	return &oaasdeployment.DeployResponse{
		Status: oaascommon.StatusCode_OK, DeploymentId: u.id(), Message: new("accepted"), ClassRuntime: accepted(r),
	}, nil
}

func (f *grpcAPI) status(
	ctx context.Context, namespace string, req *oaasdeployment.GetDeploymentStatusRequest,
) (*tolerantv1.GetDeploymentStatusResponse, error) {
	r, err := f.service.read(ctx, namespace, req.GetDeploymentId(), "get")
	if err != nil {
		return nil, err
	}
	return &tolerantv1.GetDeploymentStatusResponse{
		Status: oaascommon.StatusCode_OK, Deployment: toWire(r), Message: new(summary(r)), StatusResourceRefs: references(r),
		NfrRecommendations: recommendations(r), NfrCompliance: compliance(r),
	}, nil
}

func (f *grpcAPI) remove(
	ctx context.Context, namespace string, req *oaasdeployment.DeleteDeploymentRequest,
) (*oaasdeployment.DeleteDeploymentResponse, error) {
	err := f.service.remove(ctx, namespace, req.GetDeploymentId())
	return &oaasdeployment.DeleteDeploymentResponse{Status: oaascommon.StatusCode_OK, Message: new("deleted")}, err
}

func (f *grpcAPI) get(
	ctx context.Context, namespace string, req *oaasdeployment.GetClassRuntimeRequest,
) (*oaasdeployment.GetClassRuntimeResponse, error) {
	r, err := f.service.read(ctx, namespace, req.GetDeploymentId(), "get")
	if err != nil {
		return nil, err
	}
	return &oaasdeployment.GetClassRuntimeResponse{Deployment: toSummary(r)}, nil
}

func (f *grpcAPI) list(
	ctx context.Context, namespace string, req *oaasdeployment.ListClassRuntimesRequest,
) (*oaasdeployment.ListClassRuntimesResponse, error) {
	out := &oaasdeployment.ListClassRuntimesResponse{}
	records, err := f.page(ctx, namespace, req)
	for _, r := range records {
		out.Items = append(out.Items, toSummary(r))
	}
	return out, err
}

func (f *grpcAPI) getRecord(
	ctx context.Context, namespace string, req *oaasdeployment.GetClassRuntimeRequest,
) (*tolerantv1.GetDeploymentRecordResponse, error) {
	r, err := f.service.read(ctx, namespace, req.GetDeploymentId(), "get")
	if err != nil {
		return nil, err
	}
	return &tolerantv1.GetDeploymentRecordResponse{Deployment: toRecord(r)}, nil
}

func (f *grpcAPI) listRecords(
	ctx context.Context, namespace string, req *oaasdeployment.ListClassRuntimesRequest,
) (*tolerantv1.ListDeploymentRecordsResponse, error) {
	out := &tolerantv1.ListDeploymentRecordsResponse{}
	records, err := f.page(ctx, namespace, req)
	for _, r := range records {
		out.Items = append(out.Items, toRecord(r))
	}
	return out, err
}

// page returns the records that a list requests.
func (f *grpcAPI) page(ctx context.Context, namespace string, req *oaasdeployment.ListClassRuntimesRequest) ([]*record, error) {
	records, err := f.service.list(ctx, namespace, func(r *record) bool { return wanted(req, r) })
	return page(req, records), err
}

// wanted reports whether a record is one that a list requests.
func wanted(req *oaasdeployment.ListClassRuntimesRequest, r *record) bool {
	u := &r.Spec.DeploymentUnit
	is := func(requested *string, have ...string) bool {
		return requested == nil || slices.Contains(have, *requested)
	}
	return is(req.PackageName, u.PackageName) && is(req.ClassKey, u.ClassKey) && is(req.TargetEnv, r.Spec.TargetEnvironment) &&
		is(req.Status, summary(r), state(r))
}

// page cuts out what a list requests.
func page(req *oaasdeployment.ListClassRuntimesRequest, records []*record) []*record {
	records = records[min(uint64(req.GetOffset()), uint64(len(records))):]
	if req.Limit != nil {
		records = records[:min(uint64(req.GetLimit()), uint64(len(records)))]
	}
	return records
}
