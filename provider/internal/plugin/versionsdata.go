// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/backendblock"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact/evidence"
)

// versionsData is the data source okara_module_versions or okara_provider_versions.
type versionsData struct {
	*okara
	of string // "module" or "provider"
}

// Metadata sets the name of the data source.
func (d *versionsData) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + d.of + "_versions"
}

// Schema contains the registry, and the address of the module or provider.
func (d *versionsData) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Lists the published versions of a " + d.of + " in an OCI registry.",
		Attributes: map[string]schema.Attribute{
			"address":    schema.StringAttribute{Required: true, MarkdownDescription: "address, such as `" + d.exampleAddress() + "`"},
			"registry":   schema.StringAttribute{Optional: true, MarkdownDescription: "`HOST[:PORT][/PREFIX]`; default: the variable `OKARA_REGISTRY`"},
			"ca_file":    schema.StringAttribute{Optional: true, MarkdownDescription: "PEM file of certificate authorities to trust besides the system's"},
			"insecure":   schema.BoolAttribute{Optional: true, MarkdownDescription: "do not verify TLS certificates"},
			"plain_http": schema.BoolAttribute{Optional: true, MarkdownDescription: "use plain HTTP for a registry that is not on loopback"},
			"versions":   schema.ListAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "highest first, without withdrawn ones"},
			"latest":     schema.StringAttribute{Computed: true, MarkdownDescription: "the highest of `versions` that is neither a pre-release nor deprecated; null if there is none"},
			"deprecated": schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: "messages of the deprecated ones of `versions`"},
		},
	}
}

func (d *versionsData) exampleAddress() string {
	if d.of == addr.KindModule {
		return "acme/network/aws"
	}
	return "acme/cloud` or, of a mirrored one, `registry.opentofu.org/hashicorp/aws"
}

// Read lists the tags of one repository and reads the annotations of its versions.
func (d *versionsData) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	r, err := d.repository(req.Config)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	l, err := listVersions(ctx, r)
	if err != nil {
		resp.Diagnostics.Append(errorDiagnostic(err))
		return
	}
	resp.State.Raw = req.Config.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("versions"), l.versions)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("latest"), l.latest)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("deprecated"), l.deprecated)...)
}

// repository opens the repository of the configured module or provider.
func (d *versionsData) repository(config tfsdk.Config) (*oci.Repo, error) {
	o, err := objectOf(config.Raw)
	if err != nil {
		return nil, err
	}
	address, err := o.text("address")
	if err != nil {
		return nil, err
	}
	it, err := addr.ParseItem(address)
	if err != nil {
		return nil, err
	}
	if (it.Kind == addr.KindModule) != (d.of == addr.KindModule) {
		return nil, fmt.Errorf("%q is not an address of a %s\nhint: the format is %s", address, d.of, d.exampleAddress())
	}
	host, prefix, client, err := d.readRegistry(o)
	if err != nil {
		return nil, err
	}
	return oci.OpenRepo(host+"/"+it.Repository(addr.Layout{Prefix: prefix}), client)
}

// readRegistry reads the registry's address and how to reach it.
func (d *versionsData) readRegistry(o object) (host, prefix string, client oci.Options, err error) {
	name, err := o.text("registry")
	if err != nil {
		return "", "", oci.Options{}, err
	}
	host, prefix, err = addr.SplitRegistry(cmp.Or(name, os.Getenv("OKARA_REGISTRY")))
	if err != nil {
		return "", "", oci.Options{}, fmt.Errorf("%w\nhint: set registry, or the variable OKARA_REGISTRY", err)
	}
	a := backendblock.New(".")
	if err := setAll(a, "", o); err != nil {
		return "", "", oci.Options{}, err
	}
	open, err := d.openOptions()
	if err != nil {
		return "", "", oci.Options{}, err
	}
	client, err = a.Client(open)
	return host, prefix, client, err
}

// listed is the result of a data source for the versions in a repository.
type listed struct {
	versions   []string
	latest     *string
	deprecated map[string]string
}

func listVersions(ctx context.Context, r *oci.Repo) (listed, error) {
	tags, err := r.Snapshot(ctx)
	if errors.Is(err, oci.ErrNotFound) {
		return listed{}, fmt.Errorf("nothing is published in %s: %w\nhint: `okara list` shows what is published", r, oci.ErrNotFound)
	}
	if err != nil {
		return listed{}, fmt.Errorf("listing the versions in %s: %w", r, err)
	}
	events, _, err := evidence.ReadStatusEvents(ctx, r, tags)
	if err != nil {
		return listed{}, err
	}
	l := listed{deprecated: map[string]string{}}
	for _, v := range versionsOf(tags.Tags) {
		status := evidence.FoldStatus(events, v.String(), "")
		if status.Yanked != nil {
			continue
		}
		name := v.String()
		l.versions = append(l.versions, name)
		if status.Deprecated != nil {
			l.deprecated[name] = "deprecated" + status.Deprecated.Because()
		} else if l.latest == nil && !v.Prerelease() {
			l.latest = &name
		}
	}
	return l, nil
}

// versionsOf returns the versions among tags, highest first.
func versionsOf(tags []string) []addr.Version {
	var versions []addr.Version
	for _, tag := range tags {
		if v, ok := addr.VersionFromTag(tag); ok {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, func(a, b addr.Version) int { return b.Compare(a) })
	return versions
}
