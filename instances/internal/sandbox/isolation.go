// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ExecCommand is the command of okara that sets limits and user, and executes the tool.
const ExecCommand = "instance-exec"

// systemFiles returns the files that programs need: libraries and programs, names of
// users and hosts, certificates. None of these folders contains keys: of /etc/ssl and
// /etc/pki only the public parts are listed.
func systemFiles() []string {
	return []string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
		"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/gai.conf", "/etc/group", "/etc/host.conf",
		"/etc/hosts", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/mime.types",
		"/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd", "/etc/pki/ca-trust/extracted", "/etc/pki/tls/cert.pem",
		"/etc/pki/tls/certs", "/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl/cert.pem", "/etc/ssl/certs",
		"/etc/ssl/openssl.cnf",
	}
}

// commandLine returns the command that runs the tool. Limits and user are set by
// [ExecCommand], which runs inside the sandbox and starts any wrapper.
func (o *Order) commandLine(dir *Workdir, c Command, infoFD int) []string {
	program := Resolve(o.Program)
	tool := append([]string{program}, c.Args...)
	if o.Isolation.Mode == ModeWrap {
		names := strings.NewReplacer("${scratch}", string(dir.seenPath()), "${program}", program)
		var wrap []string
		for _, w := range o.Isolation.Wrap {
			wrap = append(wrap, names.Replace(w))
		}
		tool = append(wrap, tool...)
	}
	line := slices.Concat([]string{o.Okara, ExecCommand, "--base", string(dir.seenPath()), "--dir", c.Dir}, o.execArgs(), []string{"--"}, tool)
	if o.Isolation.Mode == ModeSandbox {
		return append(o.bubblewrapArgs(dir, infoFD), line...)
	}
	return line
}

func (o *Order) execArgs() []string {
	args := []string{"--file-size", strconv.FormatInt(o.maxScratch(), 10)}
	if m := o.Spec.Limits.Memory; m > 0 {
		args = append(args, "--memory", strconv.FormatInt(m, 10))
	}
	if n := o.Isolation.Processes; n > 0 {
		args = append(args, "--processes", strconv.Itoa(n))
	}
	if o.Isolation.Mode == ModeUser {
		args = append(args, "--uid", strconv.Itoa(o.Isolation.UID), "--gid", strconv.Itoa(o.Isolation.GID))
	}
	return args
}

// bubblewrapArgs returns bubblewrap with its arguments (bwrap(1)): separate namespaces for
// users, processes, mounts and messages, and a root folder that holds only what is named
// here. It has no capabilities and cannot get any: it cannot make further user
// namespaces, so its process limit holds. The only writable part is the tool's folder,
// whose size the kernel limits. The network is the host's.
//
// It does not end with this process, as --die-with-parent would make it: a tool whose
// parent was killed must still store what it made. To end it, the first process of the
// namespace is killed; the kernel then kills all others.
func (o *Order) bubblewrapArgs(work *Workdir, infoFD int) []string {
	shown := systemFiles()
	args := []string{
		o.Isolation.Bwrap, "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
		"--new-session", "--info-fd", strconv.Itoa(infoFD), "--cap-drop", "ALL",
	}
	made := map[string]bool{"/tmp": true, "/run": true}
	add := func(bind []string, name string) {
		for _, dir := range parentFolders(name) {
			if !made[dir] && !isCovered(dir, shown) {
				args = append(args, "--perms", "0755", "--dir", dir) // bubblewrap makes them accessible to its user only
				made[dir] = true
			}
		}
		args = append(args, bind...)
	}
	for _, name := range shown {
		add(showArgs(name), name)
	}
	args = append(args, "--proc", "/proc", "--dev", "/dev")
	args = append(args, work.bindArgs()...)
	if dir := o.PackagesDir(); dir != "" {
		args = append(args, "--ro-bind", work.shownName(dir, o.shownFiles()), string(work.Inside(PackagesFolder)))
	}
	add([]string{"--symlink", "/tmp", "/var/tmp"}, "/var/tmp")
	for _, name := range o.Isolation.Show {
		others := slices.DeleteFunc(slices.Clone(o.Isolation.Show), func(other string) bool { return other == name })
		if !isCovered(name, slices.Concat(shown, others)) {
			add([]string{"--ro-bind-try", work.shownName(name, o.Isolation.Show), name}, name)
		}
	}
	for _, dir := range o.Isolation.Hide {
		if isCovered(dir, slices.Concat(shown, o.Isolation.Show)) {
			args = append(args, "--tmpfs", dir, "--remount-ro", dir)
		}
	}
	return append(args, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/", "--")
}

func isCovered(name string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return isWithin(name, f) })
}

// parentFolders returns the folders above a name, from the top, without the root.
func parentFolders(name string) []string {
	var list []string
	for dir := filepath.Dir(name); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		list = append(list, dir)
	}
	slices.Reverse(list)
	return list
}

// showArgs returns the arguments that show one system file, if it exists. A link into
// /usr, such as /bin in some distributions, is shown as a link; of any other link, such
// as /etc/resolv.conf, the target is shown.
func showArgs(name string) []string {
	info, err := os.Lstat(name)
	if err != nil {
		return nil
	}
	if info.Mode()&os.ModeSymlink == 0 {
		return []string{"--ro-bind", name, name}
	}
	target, err := os.Readlink(name)
	if err == nil && isWithin(filepath.Join(filepath.Dir(name), target), "/usr") {
		return []string{"--symlink", target, name}
	}
	return []string{"--ro-bind-try", Resolve(name), name}
}

// Resolve returns the target of a link, or the name itself.
func Resolve(name string) string {
	if file, err := filepath.EvalSymlinks(name); err == nil {
		return file
	}
	return name
}

func isWithin(name, folder string) bool {
	rel, err := filepath.Rel(folder, name)
	return err == nil && filepath.IsLocal(rel)
}
