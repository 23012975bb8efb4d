// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// service is a gRPC service of Berth, and the token of its caller.
type service struct {
	d           *demo
	name, token string
	conn        *grpc.ClientConn
}

// service gets a token, connects, and prints the commands that do the same.
func (d *demo) service(ctx context.Context, address, name string) (*service, error) {
	const account = "client"
	token, err := d.kube.CoreV1().ServiceAccounts(namespace).CreateToken(
		ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{},
	)
	if err != nil {
		return nil, fmt.Errorf("create a token of the ServiceAccount %s: %w", account, err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	d.command("TOKEN=$(kubectl create token %s)", account)
	d.command("call() { grpcurl -plaintext -H \"authorization: Bearer $TOKEN\" -d \"$2\" \\\n%s %s/\"$1\"; }", address, name)
	return &service{d: d, name: name, token: token.Status.Token, conn: conn}, nil
}

// call prints a call and makes it: the request is the printed text.
func (s *service) call(ctx context.Context, method, request string, in, out proto.Message) error {
	s.d.command("call %s '%s'", method, request)
	return s.repeat(ctx, method, request, in, out)
}

// repeat makes a call that was printed before.
func (s *service) repeat(ctx context.Context, method, request string, in, out proto.Message) error {
	if err := protojson.Unmarshal([]byte(request), in); err != nil {
		return fmt.Errorf("request of %s: %w", method, err)
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.token)
	if err := s.conn.Invoke(ctx, "/"+s.name+"/"+method, in, out, grpc.WaitForReady(true)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// berthTable runs `kubectl berth` and prints one table of its output, from its header to the next empty line.
func (d *demo) berthTable(ctx context.Context, header string, args ...string) error {
	out, err := d.berthOutput(ctx, args...)
	if err != nil {
		return err
	}
	_, rest, found := strings.Cut(out, header)
	if !found {
		return fmt.Errorf("kubectl berth %s printed no table %s: %s", strings.Join(args, " "), header, out)
	}
	rows, _, _ := strings.Cut(rest, "\n\n")
	d.outputs("...\n" + header + rows + "\n...\n")
	return nil
}
