// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/internal/states"
	"github.com/seed-141914ff/okara/internal/text"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/statebackend"
)

// stateData is the data source okara_state, which reads the outputs of another state.
type stateData struct {
	open func(backendblock.Backend) (*statebackend.Store, error)
}

// Metadata sets the name of the data source.
func (*stateData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_state"
}

// Schema contains the arguments of backend "oci" that apply to reading.
func (*stateData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	attributes := dataAttributes()
	maps.Copy(attributes, map[string]schema.Attribute{
		"workspace":         schema.StringAttribute{Optional: true, MarkdownDescription: "workspace whose state is read; default: `default`"},
		"outputs":           schema.DynamicAttribute{Computed: true, MarkdownDescription: "an object of the outputs that are not sensitive"},
		"sensitive_outputs": schema.DynamicAttribute{Computed: true, Sensitive: true, MarkdownDescription: "an object of the sensitive outputs"},
		"version":           schema.Int64Attribute{Computed: true, MarkdownDescription: "the number of the version that was read"},
	})
	resp.Schema = schema.Schema{MarkdownDescription: "Reads the outputs of a state in an OCI registry.", Attributes: attributes}
}

// Read reads the newest version, since readers of another team's state act on it at once.
func (d *stateData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	state, v, err := d.readState(ctx, req.Config)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	open, sensitive, err := splitOutputs(ctx, state)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	resp.State.Raw = req.Config.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("outputs"), open)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("sensitive_outputs"), sensitive)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("version"), v.N)...)
}

func (d *stateData) readState(ctx context.Context, config tfsdk.Config) ([]byte, statebackend.Version, error) {
	b, err := readBackend(config.Raw, os.Getenv)
	if err != nil {
		return nil, statebackend.Version{}, err
	}
	workspace, err := d.workspace(config)
	if err != nil {
		return nil, statebackend.Version{}, err
	}
	b.StrictReads = true
	store, err := d.open(b.ForWorkspace(workspace))
	if err != nil {
		return nil, statebackend.Version{}, err
	}
	state, v, err := store.Get(ctx, workspace)
	if errors.Is(err, oci.ErrNotFound) {
		err = fmt.Errorf("workspace %q of %s has no state: %w\nhint: `okara state list %s` shows the workspaces", workspace, b.Repository, err, b.Repository)
	}
	return state, v, err
}

func (*stateData) workspace(config tfsdk.Config) (string, error) {
	o, err := objectOf(config.Raw)
	if err != nil {
		return "", err
	}
	name, err := o.text("workspace")
	name = cmp.Or(name, "default")
	return name, err
}

func splitOutputs(ctx context.Context, state []byte) (open, sensitive attr.Value, err error) {
	all, err := states.Outputs(state)
	if errors.Is(err, states.ErrEncrypted) {
		return nil, nil, errors.New("the tool encrypted this state itself, so its outputs cannot be read here\nhint: terraform_remote_state reads it with the tool's keys; or encrypt states with `encryption` of the backend instead")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading the outputs of a state: %w", statebackend.ErrNotState)
	}
	parts := map[bool]map[string]tftypes.Value{false: {}, true: {}}
	for name, o := range all {
		value, err := decodeOutput(o.Value, o.Type)
		if err != nil {
			return nil, nil, fmt.Errorf("output %q of this state cannot be read: %w\nhint: `okara state show` shows the state; an apply by the tool rewrites its outputs", name, err)
		}
		parts[o.Sensitive][name] = value
	}
	if open, err = dynamicObject(ctx, parts[false]); err != nil {
		return nil, nil, err
	}
	sensitive, err = dynamicObject(ctx, parts[true])
	return open, sensitive, err
}

// maxLevels bounds the nesting depth of an output and its type, since reading a type
// takes time proportional to its length and its depth.
const maxLevels = 100

// decodeOutput decodes an output from its value and its type. A state has both in the
// encoding of a dynamic value in the protocol of providers.
func decodeOutput(value, typ json.RawMessage) (tftypes.Value, error) {
	if len(typ) == 0 {
		return tftypes.Value{}, errors.New("no type")
	}
	if text.Levels(typ) > maxLevels || text.Levels(value) > maxLevels {
		return tftypes.Value{}, fmt.Errorf("nested more than %d levels deep", maxLevels)
	}
	var t any
	if err := json.Unmarshal(typ, &t); err != nil {
		return tftypes.Value{}, err
	}
	output, err := json.Marshal(map[string]any{"type": staticType(t), "value": value})
	if err != nil {
		return tftypes.Value{}, err
	}
	return tfprotov6.DynamicValue{JSON: output}.Unmarshal(tftypes.DynamicPseudoType)
}

// staticType returns a type in JSON with string instead of dynamic, which is the type of
// a null and of the elements of an empty list.
func staticType(t any) any {
	switch t := t.(type) {
	case string:
		if t == "dynamic" {
			return "string"
		}
	case []any:
		for i := range t { // the first one is the kind, or an element of a tuple
			t[i] = staticType(t[i])
		}
	case map[string]any:
		for name := range t {
			t[name] = staticType(t[name])
		}
	}
	return t
}

func dynamicObject(ctx context.Context, values map[string]tftypes.Value) (attr.Value, error) {
	of := make(map[string]tftypes.Type, len(values))
	for name, v := range values {
		of[name] = v.Type()
	}
	return types.DynamicType.ValueFromTerraform(ctx, tftypes.NewValue(tftypes.Object{AttributeTypes: of}, values))
}
