// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/seed-141914ff/okara/internal/must"
	"github.com/seed-141914ff/okara/internal/ocitest"
	"github.com/seed-141914ff/okara/statebackend"
)

// readData reads a data source. The result is encoded in msgpack, as in the protocol.
func (p *process) readData(name string, values object) (tfprotov6.DynamicValue, answer) {
	p.t.Helper()
	var a struct {
		answer
		State struct{ Msgpack []byte }
	}
	request := object{"typeName": name, "config": config(p.t, values)}
	must.Succeed(p.t, p.try(p.t.Context(), "ReadDataSource", request, &a))
	return tfprotov6.DynamicValue{MsgPack: a.State.Msgpack}, a.answer
}

const manyOutputs = `{"version":4,"terraform_version":"1.12.6","serial":3,"lineage":"8e5d2b5b-0f3f-4f2a-9d6b-0f0a3c1f7e11","outputs":{
	"text":{"value":"hello","type":"string"},
	"count":{"value":3,"type":"number"},
	"on":{"value":true,"type":"bool"},
	"none":{"value":null,"type":"dynamic"},
	"zones":{"value":["a","b"],"type":["list","string"]},
	"set":{"value":["x"],"type":["set","string"]},
	"tags":{"value":{"a":"b"},"type":["map","string"]},
	"pair":{"value":["a",1],"type":["tuple",["string","number"]]},
	"mixed":{"value":[null,1],"type":["tuple",["dynamic","number"]]},
	"net":{"value":{"id":"n1","ports":[80]},"type":["object",{"id":"string","ports":["list","number"]}]},
	"nets":{"value":[{"id":"n1","ports":[80]}],"type":["list",["object",{"id":"string","ports":["list","number"]}]]},
	"empty":{"value":{"dynamic":[],"none":null},"type":["object",{"dynamic":["list","dynamic"],"none":["map","dynamic"]}]},
	"password":{"value":"planted","type":"string","sensitive":true}
},"resources":[]}`

// TestStateData reads outputs of every type, with the sensitive ones separate.
func TestStateData(t *testing.T) {
	values, store := registry(t)
	must.Succeed(t, store.Hold(t.Context(), "prod", statebackend.NewLockInfo("push", "test"), func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(manyOutputs))
		return err
	}))
	p := start(t, nil)
	values["workspace"] = "prod"
	value, a := p.readData("okara_state", values)
	p.must(a)
	attributes := tftypes.Object{AttributeTypes: map[string]tftypes.Type{}}
	for _, name := range []string{"repository", "primary_repository", "ca_file", "workspace"} {
		attributes.AttributeTypes[name] = tftypes.String
	}
	for _, name := range []string{"insecure", "plain_http"} {
		attributes.AttributeTypes[name] = tftypes.Bool
	}
	attributes.AttributeTypes["retry"] = tftypes.Object{AttributeTypes: map[string]tftypes.Type{
		"max_attempts": tftypes.Number, "initial_backoff": tftypes.String, "max_backoff": tftypes.String,
	}}
	attributes.AttributeTypes["encryption"] = tftypes.List{ElementType: tftypes.Object{AttributeTypes: map[string]tftypes.Type{
		"key_id": tftypes.String, "identity": tftypes.String, "type": tftypes.String,
	}}}
	attributes.AttributeTypes["outputs"] = tftypes.DynamicPseudoType
	attributes.AttributeTypes["sensitive_outputs"] = tftypes.DynamicPseudoType
	attributes.AttributeTypes["version"] = tftypes.Number
	got := must.Get(value.Unmarshal(attributes))(t)
	all := map[string]tftypes.Value{}
	must.Succeed(t, got.As(&all))
	text := tftypes.NewValue(tftypes.String, "b")
	number := func(n int) tftypes.Value { return tftypes.NewValue(tftypes.Number, n) }
	list := func(of ...tftypes.Value) tftypes.Value {
		return tftypes.NewValue(tftypes.List{ElementType: of[0].Type()}, of)
	}
	a1 := tftypes.NewValue(tftypes.String, "a")
	id := tftypes.NewValue(tftypes.String, "n1")
	netType := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"id": tftypes.String, "ports": tftypes.List{ElementType: tftypes.Number}}}
	net := tftypes.NewValue(netType, map[string]tftypes.Value{"id": id, "ports": list(number(80))})
	noStrings, noMap := tftypes.List{ElementType: tftypes.String}, tftypes.Map{ElementType: tftypes.String}
	want := map[string]tftypes.Value{
		"text":  tftypes.NewValue(tftypes.String, "hello"),
		"count": number(3),
		"on":    tftypes.NewValue(tftypes.Bool, true),
		"none":  tftypes.NewValue(tftypes.String, nil),
		"zones": list(a1, text),
		"set":   tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, []tftypes.Value{tftypes.NewValue(tftypes.String, "x")}),
		"tags":  tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, map[string]tftypes.Value{"a": text}),
		"pair":  tftypes.NewValue(tftypes.Tuple{ElementTypes: []tftypes.Type{tftypes.String, tftypes.Number}}, []tftypes.Value{a1, number(1)}),
		"mixed": tftypes.NewValue(tftypes.Tuple{ElementTypes: []tftypes.Type{tftypes.String, tftypes.Number}}, []tftypes.Value{tftypes.NewValue(tftypes.String, nil), number(1)}),
		"net":   net,
		"nets":  list(net),
		"empty": tftypes.NewValue(tftypes.Object{AttributeTypes: map[string]tftypes.Type{"dynamic": noStrings, "none": noMap}}, map[string]tftypes.Value{
			"dynamic": tftypes.NewValue(noStrings, []tftypes.Value{}), "none": tftypes.NewValue(noMap, nil),
		}),
	}
	outputs := map[string]tftypes.Value{}
	must.Succeed(t, all["outputs"].As(&outputs))
	must.Match(t, "outputs differ", outputs, want)
	sensitive := map[string]tftypes.Value{}
	if err := all["sensitive_outputs"].As(&sensitive); err != nil || len(sensitive) != 1 || !sensitive["password"].Equal(tftypes.NewValue(tftypes.String, "planted")) {
		t.Errorf("sensitive outputs %v, %v", sensitive, err)
	}
	if !all["version"].Equal(number(1)) {
		t.Errorf("version %v", all["version"])
	}
}

// TestStateDataRefuses checks the errors for states that cannot be read.
func TestStateDataRefuses(t *testing.T) {
	values, store := registry(t)
	p := start(t, nil)
	_, a := p.readData("okara_state", values)
	says(t, a, `workspace "default" of `, "has no state", "Hint: `okara state list ")
	must.Succeed(t, store.Hold(t.Context(), "default", statebackend.NewLockInfo("push", "test"), func(l *statebackend.Lock) error {
		_, err := l.Put(t.Context(), []byte(`{"serial":1,"lineage":"l","meta":{"key_provider.pbkdf2.a":"e30="},"encrypted_data":"AAAA","encryption_version":"v0"}`))
		return err
	}))
	_, a = p.readData("okara_state", values)
	says(t, a, "the tool encrypted this state itself", "terraform_remote_state")

	for output, want := range map[string]string{
		`{"value":1}`: "no type",
		`{"value":null,"type":` + strings.Repeat(`["list",`, 9000) + `"string"` + strings.Repeat("]", 9000) + `}`: "more than 100 levels",
	} {
		must.Succeed(t, store.Hold(t.Context(), "default", statebackend.NewLockInfo("push", "test"), func(l *statebackend.Lock) error {
			_, err := l.Put(t.Context(), []byte(`{"version":4,"serial":2,"lineage":"l","outputs":{"vpc":`+output+`}}`))
			return err
		}))
		_, a = p.readData("okara_state", values)
		says(t, a, `output "vpc" of this state cannot be read`, want, "Hint: ")
	}
}

// TestVersionsDataRefuses what is missing.
func TestVersionsDataRefuses(t *testing.T) {
	t.Setenv("OKARA_REGISTRY", "") // may be set in the developer's environment
	host := ocitest.New(t, ocitest.Quirks{})
	p := start(t, nil)
	_, a := p.readData("okara_module_versions", object{"address": "acme/network/aws", "registry": host})
	says(t, a, "nothing is published in "+host+"/modules/acme/network/aws", "Hint: `okara list`")
	_, a = p.readData("okara_module_versions", object{"address": "acme/cloud", "registry": host})
	says(t, a, "is not an address of a module", "acme/network/aws")
	_, a = p.readData("okara_provider_versions", object{"address": "acme/cloud"})
	says(t, a, "HOST[:PORT][/PREFIX]", "OKARA_REGISTRY")
	_, a = p.readData("okara_provider_versions", object{"address": "acme/cloud", "registry": host, "plain_http": true, "insecure": true})
	says(t, a, "plain_http conflicts with ca_file and insecure")
}
