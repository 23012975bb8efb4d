// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"cmp"
	"context"
	"fmt"

	"google.golang.org/grpc"

	tolerantv1 "berth.dev/berth/apis/proto/berth/mcp/v1"
	orchestratorv1 "berth.dev/berth/apis/proto/mcp/orchestrator/v1"
	"berth.dev/berth/services/server"
)

// formKey is metadata that has the answer in a wire form: any or map.
const formKey = "berth-wire-form"

// grpcAPI is the gRPC side of the service under one of its names.
type grpcAPI struct {
	service *service
	// namespace is where limits are, and form how they are answered, unless a call has its own.
	namespace string
	form      form
}

// formsOf are the wire forms of the clients of each name of the service. Each name was published with one form, and a client
// can decode no other.
var formsOf = map[string]form{
	orchestratorv1.McpOrchestratorService_ServiceDesc.ServiceName: formMap,
	orchestratorv1.ResourceLimitService_ServiceDesc.ServiceName:   formAny,
}

// describe describes the service under a name. It does so by hand: the messages are not the published ones but the tolerant
// ones, which are the same on the wire.
func describe(name string) *grpc.ServiceDesc {
	methods := []grpc.MethodDesc{
		server.Unary("CreateResourceLimit", withoutMetadata((*grpcAPI).create)),
		server.Unary("GetResourceLimit", withoutMetadata((*grpcAPI).get)),
		server.Unary("ListResourceLimits", withoutMetadata((*grpcAPI).list)),
		server.Unary("UpdateResourceLimit", withoutMetadata((*grpcAPI).update)),
		server.Unary("DeleteResourceLimit", withoutMetadata((*grpcAPI).remove)),
	}
	return &grpc.ServiceDesc{
		ServiceName: name, HandlerType: (*any)(nil), Methods: methods,
		Metadata: orchestratorv1.File_mcp_orchestrator_v1_orchestrator_proto.Path(),
	}
}

// withoutMetadata returns a method as the server calls it, without what the metadata of the call requests. It renames the fields of errors.
func withoutMetadata[Req, Resp any](
	method func(f *grpcAPI, ctx context.Context, o options, req Req) (Resp, error),
) func(*grpcAPI, context.Context, Req) (Resp, error) {
	return func(f *grpcAPI, ctx context.Context, req Req) (resp Resp, err error) {
		o, err := f.options(ctx)
		if err == nil {
			resp, err = method(f, ctx, o, req)
		}
		return resp, server.Rename(err, wireField)
	}
}

func (f *grpcAPI) create(
	ctx context.Context, o options, req *tolerantv1.WriteResourceLimitRequest,
) (*tolerantv1.ResourceLimitResponse, error) {
	return write(ctx, o, req, f.service.create)
}

func (f *grpcAPI) update(
	ctx context.Context, o options, req *tolerantv1.WriteResourceLimitRequest,
) (*tolerantv1.ResourceLimitResponse, error) {
	return write(ctx, o, req, f.service.update)
}

func write(
	ctx context.Context, o options, req *tolerantv1.WriteResourceLimitRequest, do func(context.Context, string, *Limit) (*Limit, error),
) (*tolerantv1.ResourceLimitResponse, error) {
	l, err := fromWire(req)
	if err != nil {
		return nil, err
	}
	if l, err = do(ctx, o.namespace, l); err != nil {
		return nil, err
	}
	return o.answer(l)
}

func (f *grpcAPI) get(
	ctx context.Context, o options, req *orchestratorv1.GetResourceLimitRequest,
) (*tolerantv1.ResourceLimitResponse, error) {
	l, err := f.service.get(ctx, o.namespace, req.GetName())
	if err != nil {
		return nil, err
	}
	return o.answer(l)
}

func (f *grpcAPI) list(
	ctx context.Context, o options, req *orchestratorv1.ListResourceLimitsRequest,
) (*tolerantv1.ListResourceLimitsResponse, error) {
	s, err := selector(req.GetLabel())
	if err != nil {
		return nil, err
	}
	p, err := f.service.list(ctx, o.namespace, s, req.First, req.GetAfter())
	if err != nil {
		return nil, err
	}
	out := &tolerantv1.ListResourceLimitsResponse{HasNextPage: p.next != ""}
	if p.next != "" {
		out.EndCursor = &p.next
	}
	for _, l := range p.limits {
		answer, err := o.answer(l)
		if err != nil {
			return nil, err
		}
		out.Data = append(out.Data, answer)
	}
	return out, nil
}

func (f *grpcAPI) remove(
	ctx context.Context, o options, req *orchestratorv1.DeleteResourceLimitRequest,
) (*orchestratorv1.DeleteResourceLimitResponse, error) {
	message, err := f.service.remove(ctx, o.namespace, req.GetName(), req.GetForce())
	if err != nil {
		return nil, err
	}
	return &orchestratorv1.DeleteResourceLimitResponse{Success: true, Message: message}, nil
}

// options are what the metadata of a call requests.
type options struct {
	namespace string
	form      form
}

func (f *grpcAPI) options(ctx context.Context) (options, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return options{}, err
	}
	requested, given, err := server.Metadata(ctx, formKey)
	if err != nil {
		return options{}, err
	}
	if given && requested != string(formAny) && requested != string(formMap) {
		return options{}, server.InvalidField(formKey, fmt.Sprintf("is %q, and must be any or map", requested))
	}
	return options{namespace: namespace, form: cmp.Or(form(requested), f.form)}, nil
}

// answer writes a limit in the form of the call. Any has the type URLs that the limit was last written with.
func (o options) answer(l *Limit) (*tolerantv1.ResourceLimitResponse, error) {
	f := o.form
	if f == formAny && l.form == formGoogle {
		f = formGoogle
	}
	return toWire(l, f)
}
