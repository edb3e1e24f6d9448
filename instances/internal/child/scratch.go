// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	digest "github.com/opencontainers/go-digest"
	"github.com/zclconf/go-cty/cty"

	"github.com/seed-141914ff/okara/instances/internal/sandbox"
	"github.com/seed-141914ff/okara/instances/template"
	"github.com/seed-141914ff/okara/internal/archive"
	"github.com/seed-141914ff/okara/internal/bridge"
	"github.com/seed-141914ff/okara/internal/description"
	"github.com/seed-141914ff/okara/internal/files"
	"github.com/seed-141914ff/okara/internal/plugincache"
	"github.com/seed-141914ff/okara/internal/syntax"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/oci/artifact"
	"github.com/seed-141914ff/okara/statebackend/format"
)

// Names below the tool's folder.
const (
	moduleFolder  = "module" // in sandbox.Tool
	homeFolder    = "home"
	profileFolder = sandbox.Given + "/run" // for the bridge
	filesFolder   = "files"                // files of credentials, in sandbox.Given
	configFile    = "tofu.rc"
	variablesFile = "variables.tfvars.json"
	planFile      = "plan"
	trustFile     = "ca.pem"

	lockFileName = ".terraform.lock.hcl"
)

// maxArchive bounds the archive of a module or configuration, in bytes.
const maxArchive = format.MaxConfiguration

// prepared is a folder in which the tool can be started.
type prepared struct {
	module string // the root module, in sandbox.Tool
	env    []string
	locked bool     // there is a dependency lock file, which must not change
	values []string // variables for commands on a plan, if the root module has a `const` one
	given  []string // the same for its apply, also if the root module has an ephemeral one
}

// prepareScratch fills the tool's folder.
func prepareScratch(ctx context.Context, c *child) (prepared, error) {
	o := &c.Order
	p := prepared{module: path.Join(moduleFolder, o.Spec.Source.Path)}
	if !filepath.IsLocal(p.module) || p.module != moduleFolder && !strings.HasPrefix(p.module, moduleFolder+"/") {
		return p, fmt.Errorf("path %q of the module is outside its archive", o.Spec.Source.Path)
	}
	if err := makeFolders(c); err != nil {
		return p, err
	}
	if err := readInput(ctx, c); err != nil {
		return p, err
	}
	if err := c.dir.Fill(sandbox.Tool, func(dir string) error {
		err := fillModule(ctx, c, dir, &p)
		root := filepath.Join(dir, filepath.FromSlash(p.module))
		if hasVariable(root, "const") {
			p.values = remoteValueFlags(c)
			p.given = p.values
		} else if hasVariable(root, "ephemeral") {
			p.given = append(autoFlags(root), remoteValueFlags(c)...)
		}
		return err
	}); err != nil {
		return p, err
	}
	if err := linkErrored(c, p.module); err != nil {
		return p, fmt.Errorf("preparing the run: %w", err)
	}
	if err := writeFiles(c); err != nil {
		return p, fmt.Errorf("preparing the run: %w", err)
	}
	var err error
	if p.env, err = toolEnvironment(c); err != nil {
		return p, err
	}
	return p, writeNote(ctx, c, p.module)
}

// makeFolders makes the folders for the other files.
func makeFolders(c *child) error {
	for _, name := range []string{sandbox.Tool + "/" + moduleFolder, sandbox.Tool + "/" + homeFolder, profileFolder, sandbox.Given + "/" + filesFolder} {
		if err := c.dir.Fill(name, func(dir string) error { return os.Mkdir(dir, 0o700) }); err != nil {
			return fmt.Errorf("preparing the run: %w", err)
		}
	}
	return nil
}

// linkErrored makes a state that cannot be stored outlive the tool's folder.
func linkErrored(c *child, module string) error {
	if !c.Order.Changes() {
		return nil
	}
	return c.dir.LinkErrored(module)
}

// fillModule unpacks the root module below a folder.
func fillModule(ctx context.Context, c *child, tool string, p *prepared) error {
	s := c.Order.Spec.Source
	if c.isRemote() {
		return fillUpload(ctx, c, filepath.Join(tool, moduleFolder))
	}
	if err := withArchive(ctx, c, func(f *os.File, size int64) error {
		return archive.Unpack(ctx, f, size, filepath.Join(tool, moduleFolder), archive.Limits{})
	}); err != nil {
		return fmt.Errorf("module %s %s: %w", s.Module, s.Version, err)
	}
	dir := filepath.Join(tool, filepath.FromSlash(p.module))
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("module %s %s has no folder %q", s.Module, s.Version, s.Path)
	}
	if err := cleanModule(dir, true); err != nil {
		return fmt.Errorf("preparing the run: %w", err)
	}
	if err := putLockFile(ctx, c, dir); err != nil {
		return err
	}
	p.locked = s.Lock != ""
	sharePackages(ctx, c, dir)
	return bridge.PrepareHeld(dir, c.Order.Spec.Repository)
}

// autoFlags names the files of values that the tools read by themselves, in their order, but not for a saved plan.
func autoFlags(dir string) (flags []string) {
	entries, _ := os.ReadDir(dir) // in order; the tool reports a folder that cannot be read
	for _, pattern := range []string{"terraform.tfvars", "terraform.tfvars.json", "*.auto.tfvars*"} {
		for _, e := range entries {
			ok, _ := path.Match(pattern, e.Name()) // the patterns are valid
			if ok && e.Type().IsRegular() && (strings.HasSuffix(e.Name(), ".tfvars") || strings.HasSuffix(e.Name(), ".tfvars.json")) {
				flags = append(flags, "-var-file="+e.Name())
			}
		}
	}
	return flags
}

// hasVariable reports whether a root module has a variable that is `const` or `ephemeral`. OpenTofu 1.12 and Terraform
// 1.15 need the value of a `const` one again for each command on a saved plan, where older tools refuse variables; each tool
// needs that of an ephemeral one, which no plan has, to apply it. OpenTofu takes the default without a word.
func hasVariable(dir, argument string) bool {
	entries, _ := os.ReadDir(dir) // the tool reports a folder that cannot be read
	return slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		if !e.Type().IsRegular() || !description.IsConfiguration(e.Name()) {
			return false
		}
		src, err := os.ReadFile(filepath.Join(dir, e.Name()))
		file, _ := syntax.Parse(src, e.Name())
		if err != nil || file == nil {
			return false
		}
		body, _, _ := file.Body.PartialContent(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "variable", LabelNames: []string{"name"}}}})
		return slices.ContainsFunc(body.Blocks, func(b *hcl.Block) bool {
			content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: argument}}})
			a := content.Attributes[argument]
			if a == nil {
				return false
			}
			v, diags := a.Expr.Value(nil)
			return diags.HasErrors() || v.Type() != cty.Bool || !v.IsKnown() || v.IsNull() || v.True()
		})
	})
}

// shareTime bounds how long a run waits for shared providers.
const shareTime = 2 * time.Minute

// sharePackages links the root module to the shared providers; the tool fetches missing ones.
func sharePackages(ctx context.Context, c *child, dir string) {
	o := &c.Order
	if o.Packages.Dir == "" {
		return
	}
	ctx, cancel := c.stop.context(ctx)
	defer cancel()
	cache, source, err := openPackages(c)
	if err == nil {
		within, cancel := context.WithTimeout(ctx, shareTime)
		defer cancel()
		_, err = cache.Share(within, plugincache.Module{Dir: dir, DataDir: filepath.Join(dir, ".terraform")}, plugincache.Share{
			Source: source, Dir: o.PackagesDir(), Shown: string(c.dir.Inside(sandbox.PackagesFolder)),
		})
	}
	if err != nil && ctx.Err() == nil {
		c.log.logLine("okara: cached providers are not used, the tool downloads them itself: %v", err)
	}
}

// fillTime bounds how long providers are fetched for other runs.
const fillTime = 30 * time.Second

// fillPackages fetches, beside the plan, the providers of init, for later runs.
func fillPackages(ctx context.Context, c *child, lock []byte) {
	o := &c.Order
	if o.Packages.Dir == "" {
		return
	}
	ctx, cancel := c.stop.context(context.WithoutCancel(ctx))
	c.filling.Go(func() {
		defer cancel()
		ctx, cancel := context.WithTimeout(ctx, fillTime)
		defer cancel()
		cache, source, err := openPackages(c)
		if err == nil {
			err = cache.Fill(ctx, lock, source)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "keeping providers for the next run:", err) // in the child's own log
		}
	})
}

// withArchive fetches the source's archive by its digest in the ledger, for the time of unpack.
func withArchive(ctx context.Context, c *child, unpack func(f *os.File, size int64) error) error {
	d, err := findArchive(ctx, c, c.Order.Spec.Source)
	if err != nil {
		return err
	}
	if d.Size > maxArchive {
		return fmt.Errorf("archive of %d bytes, the limit is %d: %w", d.Size, maxArchive, oci.ErrTooLarge)
	}
	f, done, err := files.TempFile(c.Order.Scratch)
	if err != nil {
		return err
	}
	defer done()
	err = c.retryPersistently(ctx, func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		r, err := c.repo.Repo.Open(ctx, d)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, r.Close())
	})
	if err != nil {
		return err
	}
	return unpack(f, d.Size)
}

// findArchive returns the descriptor of a source's archive, and looks up a size that is not known.
func findArchive(ctx context.Context, c *child, s template.Source) (d oci.Descriptor, err error) {
	id, err := digest.Parse(s.Archive)
	if err != nil || id.Algorithm() != digest.SHA256 {
		return d, fmt.Errorf("%q is not a digest of its archive", s.Archive)
	}
	if s.Size > 0 {
		return oci.Descriptor{MediaType: artifact.MediaZip, Digest: id, Size: s.Size}, nil
	}
	return retryValue(ctx, c, func() (oci.Descriptor, error) { return c.repo.Repo.Stat(ctx, id) })
}

// cleanModule removes the files of values that the tool reads by itself, since they take precedence
// over defaults. With all it also removes states and the files of init.
func cleanModule(dir string, all bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		values := strings.TrimSuffix(name, ".json")
		isLeft := name == ".terraform" || name == lockFileName || strings.HasSuffix(name, ".tfstate") || strings.Contains(name, ".tfstate.")
		if values == "terraform.tfvars" || strings.HasSuffix(values, ".auto.tfvars") || all && isLeft {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// putLockFile writes the dependency lock file of the source.
func putLockFile(ctx context.Context, c *child, dir string) error {
	want := c.Order.Spec.Source.Lock
	if want == "" {
		return nil
	}
	id, err := digest.Parse(want)
	if err != nil {
		return fmt.Errorf("dependency lock file %q: %w", want, err)
	}
	b, err := retryValue(ctx, c, func() ([]byte, error) { return c.repo.LockFile(ctx, id) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, lockFileName), b, 0o600)
}

func writeFiles(c *child) error {
	o := &c.Order
	values := o.Spec.Variables
	if values == nil {
		values = map[string]json.RawMessage{}
	}
	variables, err := json.Marshal(values)
	if err != nil {
		return err
	}
	config, err := frontEnd(o.Server).cliConfig(c.isRemote())
	if err != nil {
		return err
	}
	files := map[string][]byte{variablesFile: variables, configFile: []byte(config)}
	for name, b := range o.Files {
		if filepath.Base(name) != name || !filepath.IsLocal(name) {
			return fmt.Errorf("file %q of a credential must have no folder", name)
		}
		files[path.Join(filesFolder, name)] = b
	}
	if len(o.Server.CA) > 0 {
		files[trustFile] = append(append(systemTrust(c.Getenv), '\n'), o.Server.CA...)
	}
	for name, b := range files {
		if err := c.dir.Give(name, b); err != nil {
			return err
		}
	}
	return nil
}

// systemTrust returns this machine's certificates, to be in the tool's file, which replaces them.
func systemTrust(getenv func(string) string) []byte {
	for _, name := range []string{
		getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
	} {
		if name == "" {
			continue
		}
		if b, err := os.ReadFile(name); err == nil {
			return b
		}
	}
	return nil
}

// toolEnvironment returns the tool's whole environment, with proxies, certificates and credentials.
func toolEnvironment(c *child) ([]string, error) {
	o := &c.Order
	seen := func(elem ...string) string { return string(c.dir.Inside(elem...)) }
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": seen(sandbox.Tool, homeFolder), "TMPDIR": seen(sandbox.Temp), "LANG": "C.UTF-8",
		"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": seen(sandbox.Given, configFile),
		"AWS_EC2_METADATA_DISABLED": "true", // the machine's role belongs to the server; a credential may override this
	}
	for _, name := range sandbox.OutsideVariables() {
		if v := c.Getenv(name); v != "" {
			env[name] = v
		}
	}
	if len(o.Server.CA) > 0 {
		env["SSL_CERT_FILE"] = seen(sandbox.Given, trustFile)
	}
	if c.isRemote() {
		maps.Copy(env, remoteEnvironment(c))
	}
	for name, value := range o.Environment {
		_, set := env[name]
		overrides := set && name != "AWS_EC2_METADATA_DISABLED"
		if overrides || strings.HasPrefix(name, "TF_CLI_ARGS") || slices.Contains([]string{"TF_DATA_DIR", "TF_WORKSPACE", "TF_ENCRYPTION"}, name) {
			return nil, fmt.Errorf("a credential of this run sets %s, which is reserved for okara", name)
		}
		env[name] = strings.ReplaceAll(value, "${files}", seen(sandbox.Given, filesFolder))
	}
	for name, value := range c.input.Environment {
		_, own := env[name]
		_, given := o.Environment[name]
		if err := sandbox.CheckWorkspaceVariable(name); err != nil {
			return nil, err
		}
		if own && !given && name != "AWS_EC2_METADATA_DISABLED" {
			return nil, fmt.Errorf("variable %s cannot be set by a workspace\nhint: delete it", name)
		}
		env[name] = value
	}
	if err := bridge.CheckHeldEnvironment(func(name string) string { return env[name] }); err != nil {
		return nil, err
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list, nil
}

// frontEnd is the server from which the tool fetches modules and providers.
type frontEnd sandbox.Server

// cliConfig returns the CLI configuration of the tool: the host's services, with that of states if
// the tool keeps its state there, the token of this run, and the mirror.
func (s frontEnd) cliConfig(states bool) (string, error) {
	var b strings.Builder
	b.WriteString("disable_checkpoint = true\n")
	if s.URL == "" {
		return b.String(), nil
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.User != nil {
		return "", fmt.Errorf("%q is not the address of a server", s.URL)
	}
	for _, text := range append([]string{s.URL, s.Host, s.Token}, s.Hosts...) {
		if strings.ContainsAny(text, "\"\\\n${}") {
			return "", errors.New("the server's address, host or token has an invalid character")
		}
	}
	base := strings.TrimSuffix(s.URL, "/")
	names := s.serverNames(u)
	for _, name := range names {
		fmt.Fprintf(&b, "host %q {\n  services = {\n    \"modules.v1\" = %q\n    \"providers.v1\" = %q\n", name, base+"/v1/modules/", base+"/v1/providers/")
		for _, service := range []string{"tfe.v2", "tfe.v2.1", "state.v2"} {
			if states {
				fmt.Fprintf(&b, "    %q = %q\n", service, base+"/api/v2/")
			}
		}
		b.WriteString("  }\n}\n")
	}
	for _, host := range slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(names), u.Host)))) {
		if s.Token != "" {
			fmt.Fprintf(&b, "credentials %q {\n  token = %q\n}\n", host, s.Token)
		}
	}
	if !s.mirrors(u) {
		return b.String(), nil
	}
	if s.Hosts == nil {
		fmt.Fprintf(&b, "provider_installation {\n  network_mirror {\n    url = %q\n    exclude = [%s]\n  }\n  direct {}\n}\n", base+"/mirror/", allOf(names))
		return b.String(), nil
	}
	list := allOf(s.Hosts)
	fmt.Fprintf(&b, "provider_installation {\n  network_mirror {\n    url = %q\n    include = [%s]\n  }\n  direct {\n    exclude = [%s]\n  }\n}\n", base+"/mirror/", list, list)
	return b.String(), nil
}

// mirrors reports whether tools can use the mirror of this server: they require https for it.
func (s frontEnd) mirrors(u *url.URL) bool { return s.Mirror && u.Scheme == "https" }

// serverNames returns the names by which a configuration may refer to this server.
func (s frontEnd) serverNames(u *url.URL) []string {
	if s.Host == "" {
		return nil
	}
	names := []string{s.Host}
	with := s.Host
	if port := u.Port(); port != "" && !strings.Contains(s.Host, ":") {
		with = net.JoinHostPort(s.Host, port)
	}
	for _, name := range []string{with, u.Host} {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, "[") { // the tools do not accept an IPv6 address as a host name
			names = append(names, name)
		}
	}
	return names
}

// allOf returns patterns for all providers of some hosts.
func allOf(hosts []string) string {
	var list []string
	for _, h := range hosts {
		list = append(list, fmt.Sprintf("%q", h+"/*/*"))
	}
	return strings.Join(list, ", ")
}
