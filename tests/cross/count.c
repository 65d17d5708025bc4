/* A plugin of qemu's that counts the instructions executed, for count.sh. What it uses of
 * qemu-plugin.h (version 1) is declared here, since Debian does not ship that file. */
#include <inttypes.h>
#include <stdio.h>

int qemu_plugin_version = 1;
typedef uint64_t id_t_;
struct tb;
size_t qemu_plugin_tb_n_insns(const struct tb *);
void qemu_plugin_register_vcpu_tb_exec_inline(struct tb *, int op, void *to, uint64_t by);
void qemu_plugin_register_vcpu_tb_trans_cb(id_t_, void (*)(id_t_, struct tb *));
void qemu_plugin_register_atexit_cb(id_t_, void (*)(id_t_, void *), void *);

static uint64_t executed;

static void translated(id_t_ id, struct tb *tb) {
  (void)id;
  qemu_plugin_register_vcpu_tb_exec_inline(tb, 0 /* add */, &executed, qemu_plugin_tb_n_insns(tb));
}

static void ended(id_t_ id, void *data) {
  (void)id, (void)data;
  fprintf(stderr, "%" PRIu64 "\n", executed);
}

int qemu_plugin_install(id_t_ id, const void *info, int argc, char **argv) {
  (void)info, (void)argc, (void)argv;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, ended, NULL);
  return 0;
}
