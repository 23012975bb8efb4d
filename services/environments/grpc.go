// SPDX-License-Identifier: Apache-2.0

package environments

import (
	"context"

	"google.golang.org/grpc"

	schedulerv1 "berth.dev/berth/apis/proto/scheduler/v1"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/services/server"
)

// grpcAPI is the gRPC side.
type grpcAPI struct {
	service *service
	// namespace is where environments are unless a call names another.
	namespace string
}

// description is that of the service. It is made by hand: requests are decoded within the call, so that what is wrong with
// them has the name of a field.
func description() *grpc.ServiceDesc {
	published := &schedulerv1.SchedulerService_ServiceDesc
	return &grpc.ServiceDesc{
		ServiceName: published.ServiceName, HandlerType: (*any)(nil), Metadata: published.Metadata,
		Methods: []grpc.MethodDesc{
			server.Unary("CreateEnvironment", (*grpcAPI).create),
			server.Unary("GetEnvironment", (*grpcAPI).get),
			server.Unary("UpdateEnvironment", (*grpcAPI).update),
			server.Unary("DeleteEnvironment", (*grpcAPI).remove),
			server.Unary("ListEnvironments", (*grpcAPI).list),
			server.Unary("StartEnvironment", (*grpcAPI).start),
			server.Unary("StopEnvironment", (*grpcAPI).stop),
			server.Unary("RestartEnvironment", (*grpcAPI).restart),
			server.Unary("ScaleEnvironment", (*grpcAPI).scale),
			server.Unary("GetEnvironmentStatus", (*grpcAPI).status),
		},
		Streams: []grpc.StreamDesc{server.Streaming("GetEnvironmentLogs", maxLogsRequest, (*grpcAPI).logs)},
	}
}

func (f *grpcAPI) create(ctx context.Context, req *schedulerv1.CreateEnvironmentRequest) (*schedulerv1.CreateEnvironmentResponse, error) {
	name := req.GetSpec().GetName()
	where, _ := server.Namespace(ctx, f.namespace) // changed has its error
	e, err := f.changed(ctx, "create", render.ID(where, name), func(namespace string) (*environment, error) {
		a, err := fromWire(req.GetSpec())
		if err != nil {
			return nil, err
		}
		if req.GetSpec().GetApplicationStack() == nil {
			return nil, server.InvalidField("spec.application_stack", "is missing")
		}
		id, err := idOf(namespace, name)
		if err != nil {
			return nil, err
		}
		return f.service.create(ctx, namespace, id, a)
	})
	return &schedulerv1.CreateEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) get(ctx context.Context, req *schedulerv1.GetEnvironmentRequest) (*schedulerv1.GetEnvironmentResponse, error) {
	e, running, err := f.read(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.GetEnvironmentResponse{Environment: withInstances(e, running)}, nil
}

func (f *grpcAPI) update(ctx context.Context, req *schedulerv1.UpdateEnvironmentRequest) (*schedulerv1.UpdateEnvironmentResponse, error) {
	e, err := f.changed(ctx, render.VerbUpdate, req.GetId(), func(namespace string) (*environment, error) {
		a, err := fromWire(req.GetSpec())
		if err != nil {
			return nil, err
		}
		return f.service.update(ctx, namespace, req.GetId(), a)
	})
	return &schedulerv1.UpdateEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) remove(ctx context.Context, req *schedulerv1.DeleteEnvironmentRequest) (*schedulerv1.DeleteEnvironmentResponse, error) {
	_, err := f.audited(ctx, render.VerbDelete, req.GetId(), func(namespace string) (*environment, error) {
		return f.service.remove(ctx, namespace, req.GetId())
	})
	return &schedulerv1.DeleteEnvironmentResponse{Success: err == nil}, err
}

func (f *grpcAPI) list(ctx context.Context, req *schedulerv1.ListEnvironmentsRequest) (*schedulerv1.ListEnvironmentsResponse, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return nil, err
	}
	return f.service.list(ctx, namespace, req)
}

func (f *grpcAPI) start(ctx context.Context, req *schedulerv1.StartEnvironmentRequest) (*schedulerv1.StartEnvironmentResponse, error) {
	e, err := f.run(ctx, render.VerbStart, req.GetId(), render.Start)
	return &schedulerv1.StartEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) stop(ctx context.Context, req *schedulerv1.StopEnvironmentRequest) (*schedulerv1.StopEnvironmentResponse, error) {
	e, err := f.run(ctx, render.VerbStop, req.GetId(), func(e *environment) error { return render.Stop(e, req.GetForce()) })
	return &schedulerv1.StopEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) restart(
	ctx context.Context, req *schedulerv1.RestartEnvironmentRequest,
) (*schedulerv1.RestartEnvironmentResponse, error) {
	e, err := f.run(ctx, render.VerbRestart, req.GetId(), func(e *environment) error { return render.Restart(e, f.service.now()) })
	return &schedulerv1.RestartEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) scale(ctx context.Context, req *schedulerv1.ScaleEnvironmentRequest) (*schedulerv1.ScaleEnvironmentResponse, error) {
	e, err := f.changed(ctx, "scale", req.GetId(), func(namespace string) (*environment, error) {
		return f.service.scale(ctx, namespace, req.GetId(), req.GetReplicas())
	})
	return &schedulerv1.ScaleEnvironmentResponse{Environment: e}, err
}

func (f *grpcAPI) status(
	ctx context.Context, req *schedulerv1.GetEnvironmentStatusRequest,
) (*schedulerv1.GetEnvironmentStatusResponse, error) {
	e, running, err := f.read(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	return &schedulerv1.GetEnvironmentStatusResponse{
		Environment: withInstances(e, running), ContainerMetrics: f.service.metrics(ctx, e, running),
	}, nil
}

// maxLogsRequest bounds a request for logs, in bytes: it has an id and the name of a component.
const maxLogsRequest = 64 << 10

func (f *grpcAPI) logs(ctx context.Context, req *schedulerv1.GetEnvironmentLogsRequest, send sender) error {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return err
	}
	return f.service.logs(ctx, namespace, req, send)
}

// run changes whether the environment of an id runs, and shows what it is then.
func (f *grpcAPI) run(ctx context.Context, verb render.Verb, id string, once func(*environment) error) (*schedulerv1.Environment, error) {
	return f.changed(ctx, verb, id, func(namespace string) (*environment, error) {
		return f.service.run(ctx, namespace, id, once)
	})
}

// changed shows an environment as a change has left it. The change was written, even if the containers cannot be read now.
func (f *grpcAPI) changed(
	ctx context.Context, verb render.Verb, id string, do func(namespace string) (*environment, error),
) (*schedulerv1.Environment, error) {
	e, err := f.audited(ctx, verb, id, do)
	if err != nil {
		return nil, err
	}
	running, err := f.service.store.instances(ctx, e)
	if err != nil {
		f.service.log.V(2).Info("The containers of an environment could not be read", "environment", e.Name, "error", err.Error())
	}
	return withInstances(e, running), nil
}

// read returns the environment of an id, and its containers.
func (f *grpcAPI) read(ctx context.Context, id string) (*environment, []instance, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	if err != nil {
		return nil, nil, err
	}
	e, err := f.service.read(ctx, namespace, id, "get", "")
	if err != nil {
		return nil, nil, err
	}
	running, err := f.service.store.instances(ctx, e)
	return e, running, err
}

// audited writes down what came of a change of the environment of an id.
func (f *grpcAPI) audited(
	ctx context.Context, verb render.Verb, id string, do func(namespace string) (*environment, error),
) (*environment, error) {
	namespace, err := server.Namespace(ctx, f.namespace)
	return f.service.audited(ctx, string(verb), namespace, id, func() (*environment, error) {
		if err != nil {
			return nil, err
		}
		return do(namespace)
	})
}

func withInstances(e *environment, running []instance) *schedulerv1.Environment {
	out := toWire(e)
	for i := range running {
		out.Containers = append(out.Containers, running[i].toWire(e.Status.Ports))
	}
	return out
}
