// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"berth.dev/berth/apis/config/controller"
	"berth.dev/berth/controllers/backups"
	"berth.dev/berth/controllers/environments"
	"berth.dev/berth/internal/budget"
	"berth.dev/berth/internal/environments/render"
	"berth.dev/berth/internal/environments/stack"
)

// addEnvironments adds the controller of Environments.
func (p *parts) addEnvironments() error {
	e := &p.cfg.Environments
	config := rest.CopyConfig(p.mgr.GetConfig())
	config.Timeout = 0 // logs that are followed have timeouts of their own
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return err
	}
	c := environments.New(environments.Options{
		Client:          p.mgr.GetClient(),
		Live:            p.mgr.GetAPIReader(),
		Clock:           clock.RealClock{},
		Recorder:        p.recorder(environments.FieldOwner),
		Settings:        environmentSettings(e),
		OwnNamespaces:   e.NamespacePerEnvironment,
		Prefix:          e.NamespacePrefix,
		NamespaceLabels: e.NamespaceLabels,
		CopiedLabels:    e.CopiedLabels,
		Ports:           stack.PortRange{First: e.FirstPort, Last: e.LastPort},
		Tuning:          environmentTuning(e),
		OpenLog: func(ctx context.Context, namespace, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
			return core.Pods(namespace).GetLogs(pod, o).Stream(ctx)
		},
		Namespaces: p.cfg.Namespaces,
	})
	p.retunes = append(p.retunes, func(cfg *controller.Configuration) { c.Retune(environmentTuning(&cfg.Environments)) })
	if err := c.SetupWithManager(p.mgr); err != nil {
		return err
	}
	return backups.SetupWithManager(p.mgr, backups.Options{
		Client: p.mgr.GetClient(), Live: p.mgr.GetAPIReader(), Recorder: p.recorder(string(backups.FieldOwner)), Clock: clock.RealClock{},
		SchedulerName: e.SchedulerName, Namespaces: p.cfg.Namespaces,
	})
}

func environmentTuning(e *controller.Environments) environments.Tuning {
	return environments.Tuning{
		StartTimeout:       seconds(e.StartTimeoutSeconds),
		CleanUp:            seconds(e.CleanUpFailedSeconds),
		History:            int(e.HistoryLimit),
		EndedLogLines:      int(e.EndedLogLines),
		OrphanInterval:     seconds(e.OrphanIntervalSeconds),
		DeleteOrphansAfter: seconds(e.DeleteOrphansAfterSeconds),
	}
}

func environmentSettings(e *controller.Environments) render.Settings {
	amounts := func(from map[string]string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for name, text := range from {
			if q, err := budget.ParseQuantity(text); err == nil { // validated
				list[corev1.ResourceName(name)] = q
			}
		}
		return list
	}
	namespace, name, _ := strings.Cut(e.Gateway, "/")
	return render.Settings{
		SchedulerName:   e.SchedulerName,
		SpotPercent:     e.SpotPercent,
		Exposure:        e.Exposure,
		Exposures:       e.Exposures,
		HostPaths:       e.HostPaths,
		StorageClass:    e.StorageClass,
		VolumeSize:      e.VolumeSize,
		IngressClass:    e.IngressClass,
		OutsideNetworks: e.OutsideNetworks,
		DNSNamespace:    e.DNSNamespace,
		RunAsNonRoot:    e.RunAsNonRoot,
		Gateway:         types.NamespacedName{Namespace: namespace, Name: name},
		TLSListener:     e.GatewayTLSListener,
		Domains:         render.Domains(e.Domains),
		Quota:           amounts(e.Quota),
		DefaultLimits:   amounts(e.DefaultLimits),
	}
}
