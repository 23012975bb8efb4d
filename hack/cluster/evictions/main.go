// SPDX-License-Identifier: Apache-2.0

// Command evictions runs the controllers of EvictionRequests that kube-controller-manager has from Kubernetes 1.38 on, beside a control
// plane of an earlier version.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/evictionrequest"
	"k8s.io/kubernetes/pkg/controller/imperativeevictionresponder"
)

// Names are those of the controllers in kube-controller-manager: their field managers.
const (
	requests  = "evictionrequest-controller"
	responder = "imperative-eviction-responder-controller"
	workers   = 5
)

func main() {
	klog.InitFlags(nil)
	kubeconfig := flag.String("kubeconfig", "", "a kubeconfig file")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 100, 200
	clientOf := func(name string) (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(rest.AddUserAgent(config, name))
	}
	shared, err := clientOf("informers")
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(shared, 0)
	evictions, pods := factory.Lifecycle().V1alpha1().Evictions(), factory.Core().V1().Pods()
	client, err := clientOf(requests)
	if err != nil {
		return err
	}
	all := factory.Lifecycle().V1alpha1().EvictionRequests()
	ofRequests, err := evictionrequest.NewController(ctx, requests, evictions, all, pods, client)
	if err != nil {
		return err
	}
	if client, err = clientOf(responder); err != nil {
		return err
	}
	evictor, err := imperativeevictionresponder.NewController(ctx, responder, evictions, pods, client)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	var running sync.WaitGroup
	running.Go(func() { ofRequests.Run(ctx, workers) })
	running.Go(func() { evictor.Run(ctx, workers) })
	running.Wait()
	return nil
}
