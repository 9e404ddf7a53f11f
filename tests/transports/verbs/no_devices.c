/* Stands in for a libibverbs on a machine without devices: it has every function, and an empty list. */
#define NOT_REACHED(name) \
  int name(void);         \
  int name(void) { return -1; }

void* ibv_get_device_list(int* count);
void ibv_free_device_list(void** list);

static void* no_device;

void* ibv_get_device_list(int* count) {
  *count = 0;
  return &no_device;
}
void ibv_free_device_list(void** list) { (void)list; }

NOT_REACHED(ibv_get_device_name)
NOT_REACHED(ibv_open_device)
NOT_REACHED(ibv_close_device)
NOT_REACHED(ibv_query_device)
NOT_REACHED(ibv_query_port)
NOT_REACHED(ibv_get_async_event)
NOT_REACHED(ibv_ack_async_event)
NOT_REACHED(ibv_event_type_str)
NOT_REACHED(ibv_wc_status_str)
NOT_REACHED(ibv_fork_init)
NOT_REACHED(ibv_alloc_pd)
NOT_REACHED(ibv_dealloc_pd)
NOT_REACHED(ibv_reg_mr)
NOT_REACHED(ibv_dereg_mr)
NOT_REACHED(ibv_create_comp_channel)
NOT_REACHED(ibv_destroy_comp_channel)
NOT_REACHED(ibv_create_cq)
NOT_REACHED(ibv_destroy_cq)
NOT_REACHED(ibv_get_cq_event)
NOT_REACHED(ibv_ack_cq_events)
NOT_REACHED(ibv_create_qp)
NOT_REACHED(ibv_modify_qp)
NOT_REACHED(ibv_destroy_qp)
NOT_REACHED(_ibv_query_gid_ex)
