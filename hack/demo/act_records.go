// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	oaasdeployment "berth.dev/berth/apis/proto/oaas/deployment"
	"berth.dev/berth/apis/v1alpha1"
)

const cart = "cart"

// cartFunctions are the functions of the deployment unit, with their replicas in the request.
var cartFunctions = []struct {
	workload string
	replicas int
}{{"cart-fn-0", 10}, {"cart-fn-1", 3}}

// unit is the request of Deploy.
const unit = `{"deployment_unit": {"id": "cart", "class_key": "shop.Cart", "functions": [
{"function_key": "add", "image": "nginx", "replicas": 10,
 "nfr_requirements": {"availability": 0.999}},
{"function_key": "remove", "image": "nginx", "nfr_requirements": {"availability": 0.999}}]}}`

// records deploys a class with two functions over gRPC.
func (d *demo) records(ctx context.Context) error {
	d.title("Records: functions that are deployed over gRPC")
	d.say("A client requests two functions that are available 99.9 %% of the time. From that Berth derives the mix of both, and the " +
		"replicas of remove, which the request leaves open.")
	s, err := d.service(ctx, d.serve.Berth, "oaas.deployment.DeploymentService")
	if err != nil {
		return err
	}
	defer func() { _ = s.conn.Close() }()
	if err := s.call(ctx, "Deploy", unit, &oaasdeployment.DeployRequest{}, &oaasdeployment.DeployResponse{}); err != nil {
		return err
	}
	if err := d.available(ctx, s); err != nil {
		return err
	}
	if err := d.berthTable(ctx, "RESOURCE ", "records", "get", cart); err != nil {
		return err
	}
	if err := d.exactFunctions(ctx); err != nil {
		return err
	}
	return d.undeploy(ctx, s)
}

// available waits until GetDeploymentStatus reports that all functions are available.
func (d *demo) available(ctx context.Context, s *service) error {
	const request, method = `{"deployment_id": "cart"}`, "GetDeploymentStatus"
	status := &oaasdeployment.GetDeploymentStatusResponse{}
	_, err := d.until(ctx, "the deployment is available", func(picture) (bool, string) {
		if err := s.repeat(ctx, method, request, &oaasdeployment.GetDeploymentStatusRequest{}, status); err != nil {
			return false, err.Error()
		}
		return status.GetMessage() == "Available", status.GetMessage()
	})
	if err != nil {
		return err
	}
	d.command("call %s '%s'", method, request)
	d.output(fmt.Sprintf("... \"message\": %q ...", status.GetMessage()))
	return nil
}

// exactFunctions checks that the pods of each function have the exact split of its mix.
func (d *demo) exactFunctions(ctx context.Context) error {
	pic, err := d.lookAt(ctx, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.OwnerLabel: cart})
	if err != nil {
		return err
	}
	for _, f := range cartFunctions {
		m, err := d.mixOf(ctx, f.workload, nil)
		if err != nil {
			return err
		}
		var pods []pod
		for _, p := range pic.pods {
			if strings.HasPrefix(p.name, f.workload+"-") {
				pods = append(pods, p)
			}
		}
		d.exactly(f.workload, m, f.replicas, pods)
	}
	return nil
}

// undeploy deletes the deployment and waits until nothing of it exists.
func (d *demo) undeploy(ctx context.Context, s *service) error {
	objects := func() ([]string, error) {
		return d.existing(
			ctx, []client.ListOption{client.InNamespace(namespace), client.MatchingLabels{v1alpha1.OwnerLabel: cart}},
			&appsv1.DeploymentList{}, &corev1.ServiceList{}, &v1alpha1.CapacityMixList{}, &corev1.PodList{},
		)
	}
	before, err := objects()
	if err != nil {
		return err
	}
	want := 0
	for _, f := range cartFunctions {
		want += 3 + f.replicas
	}
	if len(before) != want {
		d.results.add([]string{fmt.Sprintf("cart has %d objects instead of %d: %s", len(before), want, strings.Join(before, ", "))})
	}
	err = s.call(
		ctx, "DeleteDeployment", `{"deployment_id": "cart"}`, &oaasdeployment.DeleteDeploymentRequest{},
		&oaasdeployment.DeleteDeploymentResponse{},
	)
	if err != nil {
		return err
	}
	record := &v1alpha1.DeploymentRecord{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cart}}
	return d.untilNothing(ctx, record, len(before), objects)
}
