// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	_ "github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server" // registers the protocol
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/seed-141914ff/okara/internal/must"
)

// programName is the file name of the provider, which TestMain builds.
const programName = "terraform-provider-okara_v0.0.1"

func programFile() string { return filepath.Join(os.Getenv("OKARA_TEST_PROVIDER_DIR"), programName) }

// TestMain builds the provider. Each test starts its own process of it.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "provider-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, programName), "../../cmd/terraform-provider-okara")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	code := 1
	if build.Run() == nil && os.Setenv("OKARA_TEST_PROVIDER_DIR", dir) == nil {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// process is the provider as tools run it, with messages of registered descriptors, as JSON.
type process struct {
	t      *testing.T
	client *goplugin.Client
	conn   *grpc.ClientConn
}

// connection is a minimal client plugin for protocol 6.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("this is the client")
}

func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}

// start starts the provider, and configures the state store unless values is nil.
func start(t *testing.T, values object) *process {
	t.Helper()
	cmd := exec.Command(programFile())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "DOCKER_CONFIG="+t.TempDir())
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig: goplugin.HandshakeConfig{
			MagicCookieKey:   "TF_PLUGIN_MAGIC_COOKIE",
			MagicCookieValue: "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2",
		},
		VersionedPlugins: map[int]goplugin.PluginSet{6: {"provider": connection{}}},
		Cmd:              cmd, AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC}, AutoMTLS: true,
		Stderr: io.Discard, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(client.Kill)
	protocol := must.Get(client.Client())(t)
	conn := must.Get(protocol.Dispense("provider"))(t)
	p := &process{t: t, client: client, conn: conn.(*grpc.ClientConn)}
	if values != nil {
		p.must(p.configure(values))
	}
	return p
}

func (p *process) signal(sig os.Signal) {
	p.t.Helper()
	provider, err := os.FindProcess(p.client.ReattachConfig().Pid)
	if err == nil {
		err = provider.Signal(sig)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// diagnostics holds the diagnostics of a response, and is empty on success.
type diagnostics []struct{ Severity, Summary, Detail string }

func (d diagnostics) failed() bool {
	return slices.ContainsFunc(d, func(one struct{ Severity, Summary, Detail string }) bool { return one.Severity == "ERROR" })
}

// answer has the fields of all responses of the protocol.
type answer struct {
	Diagnostics diagnostics
	LockID      string   `json:"lockId"`
	StateIDs    []string `json:"stateIds"`
}

// must fails the test if a response contains an error.
func (p *process) must(a answer) answer {
	p.t.Helper()
	if a.Diagnostics.failed() {
		p.t.Fatalf("%+v", a.Diagnostics)
	}
	return a
}

// message creates a message of the protocol from JSON.
func message(t *testing.T, name string, content any) *dynamicpb.Message {
	t.Helper()
	d := must.Get(protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("tfplugin6." + name)))(t)
	m := dynamicpb.NewMessage(d.(protoreflect.MessageDescriptor))
	text, err := json.Marshal(content)
	if err == nil {
		err = protojson.Unmarshal(text, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// read converts a message to JSON, the reverse of message.
func read(t *testing.T, m *dynamicpb.Message, into any) {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type object = map[string]any

func config(t *testing.T, value any) object {
	t.Helper()
	text := must.Get(json.Marshal(value))(t)
	return object{"json": text}
}

// try sends a request. The error is that of the connection.
func (p *process) try(ctx context.Context, method string, request object, into any) error {
	p.t.Helper()
	m, response := message(p.t, method+".Request", request), message(p.t, method+".Response", object{})
	if err := p.conn.Invoke(ctx, "/tfplugin6.Provider/"+method, m, response); err != nil {
		return err
	}
	read(p.t, response, into)
	return nil
}

func (p *process) ask(method string, request object) answer {
	p.t.Helper()
	var a answer
	must.Succeed(p.t, p.try(p.t.Context(), method, request, &a))
	return a
}

func (p *process) configure(values object) answer {
	p.t.Helper()
	p.must(p.ask("ValidateStateStoreConfig", object{"typeName": storeName, "config": config(p.t, values)}))
	return p.ask("ConfigureStateStore", object{
		"typeName": storeName, "config": config(p.t, values), "capabilities": object{"chunkSize": chunkSize},
	})
}

const (
	storeName = "okara_oci"
	chunkSize = 8 << 20 // the size that the tools propose
)

func (p *process) lock(workspace, operation string) answer {
	p.t.Helper()
	return p.ask("LockState", object{"typeName": storeName, "stateId": workspace, "operation": operation})
}

func (p *process) unlock(workspace, id string) answer {
	p.t.Helper()
	return p.ask("UnlockState", object{"typeName": storeName, "stateId": workspace, "lockId": id})
}

// write sends a state in chunks.
func (p *process) write(workspace string, state []byte) answer {
	p.t.Helper()
	stream := must.Get(p.conn.NewStream(p.t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/tfplugin6.Provider/WriteStateBytes"))(p.t)
	for begin := 0; begin < len(state); begin += chunkSize {
		end := min(begin+chunkSize, len(state))
		chunk := object{"bytes": state[begin:end], "totalLength": len(state), "range": object{"start": begin, "end": end - 1}}
		if begin == 0 {
			chunk["meta"] = object{"typeName": storeName, "stateId": workspace}
		}
		must.Succeed(p.t, stream.SendMsg(message(p.t, "WriteStateBytes.RequestChunk", chunk)))
	}
	response := message(p.t, "WriteStateBytes.Response", object{})
	must.Succeed(p.t, errors.Join(stream.CloseSend(), stream.RecvMsg(response)))
	var a answer
	read(p.t, response, &a)
	return a
}

// state reads a state, whose chunks have the negotiated size.
func (p *process) state(workspace string) []byte {
	p.t.Helper()
	stream := must.Get(p.conn.NewStream(p.t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/tfplugin6.Provider/ReadStateBytes"))(p.t)
	request := message(p.t, "ReadStateBytes.Request", object{"typeName": storeName, "stateId": workspace})
	must.Succeed(p.t, errors.Join(stream.SendMsg(request), stream.CloseSend()))
	var state []byte
	for {
		response := message(p.t, "ReadStateBytes.ResponseChunk", object{})
		err := stream.RecvMsg(response)
		if errors.Is(err, io.EOF) {
			return state
		}
		if err != nil {
			p.t.Fatal(err)
		}
		var chunk struct {
			answer
			Bytes       []byte
			TotalLength int `json:",string"`
		}
		read(p.t, response, &chunk)
		p.must(chunk.answer)
		if state = append(state, chunk.Bytes...); len(state) < chunk.TotalLength && len(chunk.Bytes) != chunkSize {
			p.t.Errorf("a chunk of %d bytes", len(chunk.Bytes))
		}
	}
}

// kill kills the process as an operating system does.
func (p *process) kill() {
	p.t.Helper()
	own, err := os.FindProcess(p.client.ReattachConfig().Pid)
	if err == nil {
		err = own.Kill()
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
