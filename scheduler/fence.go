// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"berth.dev/berth/internal/kube/leaderguard"
)

// withPlugin registers a plugin of Berth. Each of its clients is behind the fence: a plugin gets them, or what it makes them of, from
// its handle, and from nowhere else.
func withPlugin(guard *leaderguard.Fence, name string, factory frameworkruntime.PluginFactory) app.Option {
	return app.WithPlugin(name, func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		fenced, err := newFencedHandle(guard, h)
		if err != nil {
			return nil, fmt.Errorf("clients of plugin %s: %w", name, err)
		}
		return factory(ctx, args, fenced)
	})
}

// fencedHandle is the handle of a plugin that writes nothing once another replica may lead.
type fencedHandle struct {
	fwk.Handle
	config *rest.Config
	client clientset.Interface
}

func newFencedHandle(guard *leaderguard.Fence, h fwk.Handle) (fwk.Handle, error) {
	if h.KubeConfig() == nil {
		return h, nil // there is no API server
	}
	config := rest.CopyConfig(h.KubeConfig())
	config.Wrap(guard.WrapAll)
	client, err := clientset.NewForConfig(rest.AddUserAgent(rest.CopyConfig(config), "scheduler")) // as the scheduler's own
	if err != nil {
		return nil, err
	}
	return &fencedHandle{Handle: h, config: config, client: client}, nil
}

// KubeConfig implements fwk.Handle.
func (h *fencedHandle) KubeConfig() *rest.Config { return h.config }

// ClientSet implements fwk.Handle.
func (h *fencedHandle) ClientSet() clientset.Interface { return h.client }
